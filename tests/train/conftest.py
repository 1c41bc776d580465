from collections.abc import Callable
from pathlib import Path

import pytest
from hydra import compose, initialize_config_dir

from acctax.config import HubTarget
from acctax.models.checkpoint import Checkpoint, open_checkpoint
from acctax.paths import conf_dir
from acctax.train.config import TrainRun, from_hydra
from tests.tiny import FAMILIES, VOCAB, save_model
from tests.train.chat import save_chat_tokenizer


@pytest.fixture(scope="session")
def tiny_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny Llama with a chat template."""
    folder = tmp_path_factory.mktemp("tiny")
    save_model(FAMILIES["llama"], folder)
    save_chat_tokenizer(folder, VOCAB)
    return folder


@pytest.fixture(scope="session")
def tiny(tiny_folder: Path) -> Checkpoint:
    return open_checkpoint(HubTarget("hf", str(tiny_folder)))


@pytest.fixture
def compose_run() -> Callable[..., TrainRun]:
    """compose_run("draft_source=mtp") is the checked run, as the command line would make it."""

    def run(*overrides: str) -> TrainRun:
        with initialize_config_dir(str(conf_dir()), version_base="1.3"):
            return from_hydra(compose("train", list(overrides)), overrides)

    return run


@pytest.fixture
def small(tiny_folder: Path, tmp_path: Path) -> list[str]:
    """Overrides that make a run of seconds, all its files below tmp_path."""
    return [
        "draft_source=mtp", "target=hf", f"target.path={tiny_folder}", f"out={tmp_path / 'out'}", "data.tokens=300",
        f"data.folder={tmp_path / 'data'}", "data.held_out=4", "data.question_tokens=6", "data.answer_tokens=20",
        "data.slots=8", "data.processes=1", "fit.epochs=2", "fit.batch_tokens=128", "fit.drafts=3",
        "fit.draft_vocab=80", "fit.evaluations=1", f"tracking.uri=sqlite:///{tmp_path / 'mlflow.db'}",
    ]  # fmt: skip
