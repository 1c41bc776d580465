"""A run from end to end: it learns, it goes on after a kill as if nothing had been, it says what it cannot do."""

import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from mlflow import MlflowClient
from safetensors.torch import load_file

from acctax.errors import ConfigError
from acctax.progress import Progress
from acctax.train import corpus as corpora
from acctax.train import job
from acctax.train.config import TrainRun
from acctax.train.evaluation import Evaluator
from acctax.train.heads import build_head
from acctax.train.material import Material
from acctax.train.trainer import Trainer
from acctax.train.vocabulary import draft_vocabulary


def start(*arguments: str) -> subprocess.Popen:
    return subprocess.Popen([sys.executable, "-m", "acctax.train", *arguments], stdout=subprocess.PIPE,
                            stderr=subprocess.STDOUT, text=True)


def kill_when(process: subprocess.Popen, file: Path, size: int = 0) -> None:
    while process.poll() is None and not (file.is_file() and file.stat().st_size > size):
        time.sleep(0.01)
    assert process.poll() is None, process.stdout.read()
    os.kill(process.pid, signal.SIGKILL)
    process.wait()


def test_killed_twice_it_ends_with_the_same_weights(small, tmp_path, compose_run):
    """While it writes data, and while it trains; each time the same command goes on."""
    out, data = tmp_path / "out", tmp_path / "data"
    arguments = [*small, "fit.epochs=6", "fit.checkpoint_seconds=0"]
    kill_when(start(*arguments), data / "train-0.jsonl")
    kill_when(start(*arguments), out / "training/state.safetensors")
    last = start(*arguments)
    output, _ = last.communicate()
    assert last.returncode == 0, output
    assert "accepted by position" in output and "0 %" not in output
    job.train(compose_run(*arguments, f"out={tmp_path / 'straight'}"))
    killed, straight = (load_file(folder / "model.safetensors") for folder in (out, tmp_path / "straight"))
    assert killed.keys() == straight.keys()
    assert all(torch.equal(killed[name], straight[name]) for name in killed)
    assert "draft 3" in (out / "README.md").read_text()
    client = MlflowClient(f"sqlite:///{tmp_path / 'mlflow.db'}")
    runs = client.search_runs([client.get_experiment_by_name("acctax").experiment_id])
    assert len(runs) == 2 and all(run.info.status == "FINISHED" for run in runs)
    assert {"train/loss", "train/overlap_1", "accept/held_out_sampled_tau_3"} <= runs[0].data.metrics.keys()


def test_another_run_wants_another_folder(small, compose_run):
    run = compose_run(*small, "fit.epochs=0.2")
    job.train(run)
    job.train(run)  # it is finished: only evaluated and saved again
    with pytest.raises(ConfigError, match="out=.*: holds a run of other settings"):
        job.train(compose_run(*small, "fit.epochs=0.2", "fit.learning_rate=0.1"))


@pytest.mark.parametrize("kind", ["mtp", "eagle"])
def test_a_head_learns_its_text_by_heart(kind, small, tiny, compose_run, tmp_path):
    """On text of a random model, which no n-gram foretells: drafts for tokens that only the text can have taught."""
    run: TrainRun = compose_run(
        *small, f"draft_source={kind}", "data.temperatures=[1]", "fit.epochs=60", "fit.learning_rate=3e-3",
        "fit.draft_vocab=97", "fit.evaluations=1")
    written = corpora.make(run, tiny, Progress.silent())
    corpus = replace(written, held_out=written.train)
    vocabulary = draft_vocabulary([], 97, 97, [2])
    columns = slice(0, corpus.width) if kind == "eagle" else slice(corpus.width - 64, corpus.width)
    material = Material(tiny, corpus, vocabulary, columns, torch.float32)
    head = build_head(kind, tiny, corpora.captured_layers(3), seed=0)
    [before] = Evaluator(material, 3)(head)
    trainer = Trainer(run, head, material, tmp_path / "state.safetensors")
    [after] = trainer.fit(Progress.silent(), lambda metrics, step: None)
    assert after.rule == "sampled"
    assert after.head.tau[2].value > max(before.head.tau[2].value, after.ngram.tau[2].value) + 0.3


@pytest.mark.parametrize("overrides, message", [
    (["draft_source=ngram"], "draft_source=ngram: must be mtp or eagle: nothing else is trained"),
    (["draft_source.path=x"], "draft_source.path=x: is for running a head"),
    (["fit.epochs=0"], "fit.epochs=0.0: must be above 0"),
    (["fit.decay=1.5"], "fit.decay=1.5: must lie in (0, 1]"),
    (["fit.warmup_steps=-1"], "fit.warmup_steps=-1: must be at least 0"),
    (["fit.drafts=0"], "fit.drafts=0: must be at least 1"),
    (["data.temperatures=[]"], "data.temperatures=(): must be one or more"),
    (["data.disk_gb=0"], "data.disk_gb=0.0: must be above 0"),
    (["data.question_top_p=2"], "data.question_top_p=2.0: must lie in (0, 1]"),
    (["seed=-1"], "seed=-1: must lie in 0 to 2147483647"),
])
def test_a_choice_that_cannot_run_is_named(compose_run, overrides, message):
    with pytest.raises(ConfigError) as caught:
        compose_run(*(["draft_source=mtp"] if "=ngram" not in overrides[0] else []), *overrides)
    assert str(caught.value).startswith(message) and "\n" not in str(caught.value)


@pytest.mark.parametrize("overrides, message", [
    (["target=random_llama"], "data.prompts=None: must be a file of prompts: random_llama has no chat template"),
    (["data.prompts=missing.jsonl"], "data.prompts=missing.jsonl: must be a file that can be read"),
    (["data.evaluate=missing.jsonl"], "data.evaluate=missing.jsonl: must be a file that can be read"),
    (["data.answer_tokens=120"], "data.answer_tokens=120: question and answer, 130 tokens, must fit the target's"),
])
def test_what_the_target_cannot_do_is_said_before_it_starts(small, compose_run, tmp_path, overrides, message):
    kept = [o for o in small if not (overrides == ["target=random_llama"] and o.startswith("target"))]
    with pytest.raises(ConfigError) as caught:
        job.train(compose_run(*kept, *overrides))
    assert str(caught.value).startswith(message)
    assert not (tmp_path / "data").exists() and not (tmp_path / "out").exists()


@pytest.mark.parametrize("arguments, line", [
    (["draft_source=mpt"], "draft_source=mpt: no such option, did you mean mtp?"),
    (["draft_source=mtp", "fit.epoch=3"], "fit.epoch=3: no such field, did you mean epochs?"),
    (["draft_source=mtp", "fit.epochs=many"], "fit.epochs=many: must be a number"),
])
def test_errors_are_one_line(arguments, line, tmp_path, monkeypatch, capsys):
    from acctax.train.__main__ import main

    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HYDRA_FULL_ERROR", "0")
    monkeypatch.setattr(sys, "argv", ["acctax.train", *arguments])
    with pytest.raises(SystemExit) as stop:
        main()
    error = capsys.readouterr().err
    assert stop.value.code == 2 and line in error and error.count("\n") == 1


def test_every_way_to_compose_has_a_head_to_train(monkeypatch, capsys):
    """A target that names a source of its own must be able to, whatever else is said."""
    from acctax.train.__main__ import main

    for arguments, kind in (([], "eagle"), (["target=gemma3_270m"], "mtp"), (["draft_source=mtp"], "mtp")):
        for flag in (["--help"], ["--cfg", "job"]):
            monkeypatch.setattr(sys, "argv", ["acctax.train", *arguments, *flag])
            try:
                main()
            except SystemExit as stop:
                assert not stop.code
            shown = capsys.readouterr()
            assert not shown.err and ("usage:" in shown.out or f"kind: {kind}\n" in shown.out)
