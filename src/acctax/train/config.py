"""The schema of a training run: frozen dataclasses, checked when the run is composed. No torch here."""

import hashlib
import json
import os
import shlex
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Literal

from omegaconf import DictConfig, OmegaConf

from acctax.config import Target, Tracking
from acctax.schema import convert, require

HEADS = ("mtp", "eagle")
INDIFFERENT = {  # fields that the weights do not depend on
    "target": ("cache_dir", "description"),
    "data": ("folder", "slots", "disk_gb", "processes"),
    "fit": ("evaluations", "checkpoint_seconds"),
}


def _at_least(low: float, group: str, **values: float | None) -> None:
    for name, value in values.items():
        require(value is None or value >= low, f"{group}.{name}", value, f"must be at least {low}")


@dataclass(frozen=True)
class Data:
    """What the head learns from. Every field but the last two decides what is written."""

    folder: str
    prompts: str | None
    evaluate: str | None
    tokens: int
    held_out: int
    question_tokens: int
    question_top_p: float
    openers: tuple[str, ...]
    answer_tokens: int
    temperatures: tuple[float, ...]
    slots: int
    disk_gb: float
    processes: int | None

    def __post_init__(self) -> None:
        _at_least(1, "data", tokens=self.tokens, held_out=self.held_out, question_tokens=self.question_tokens,
                  answer_tokens=self.answer_tokens, slots=self.slots, processes=self.processes)
        require(bool(self.temperatures) and min(self.temperatures) >= 0, "data.temperatures", self.temperatures,
                "must be one or more, each 0 (greedy) or above")
        require(0 < self.question_top_p <= 1, "data.question_top_p", self.question_top_p, "must lie in (0, 1]")
        require(self.disk_gb > 0, "data.disk_gb", self.disk_gb, "must be above 0")

    @property
    def recipe(self) -> dict:
        """What decides the text: a folder of data is of one recipe."""
        return {name: value for name, value in asdict(self).items() if name not in ("tokens", *INDIFFERENT["data"])}

    @property
    def workers(self) -> int:
        return self.processes or len(os.sched_getaffinity(0))


@dataclass(frozen=True)
class Fit:
    epochs: float
    batch_tokens: int
    learning_rate: float
    warmup_steps: int
    drafts: int
    decay: float
    draft_vocab: int
    evaluations: int
    checkpoint_seconds: float

    def __post_init__(self) -> None:
        _at_least(1, "fit", batch_tokens=self.batch_tokens, drafts=self.drafts, draft_vocab=self.draft_vocab,
                  evaluations=self.evaluations)
        _at_least(0, "fit", warmup_steps=self.warmup_steps, checkpoint_seconds=self.checkpoint_seconds)
        require(self.epochs > 0, "fit.epochs", self.epochs, "must be above 0")
        require(self.learning_rate > 0, "fit.learning_rate", self.learning_rate, "must be above 0")
        require(0 < self.decay <= 1, "fit.decay", self.decay, "must lie in (0, 1]")


@dataclass(frozen=True)
class TrainRun:
    target: Target
    draft_source: Literal["mtp", "eagle"]
    data: Data
    fit: Fit
    tracking: Tracking
    out: str
    verifier: str | None
    seed: int
    overrides: tuple[str, ...] = field(default=(), compare=False)

    def __post_init__(self) -> None:
        require(0 <= self.seed < 1 << 31, "seed", self.seed, "must lie in 0 to 2147483647")

    @property
    def folder(self) -> Path:
        return Path(self.out).expanduser()

    @property
    def data_folder(self) -> Path:
        return Path(self.data.folder).expanduser()

    @property
    def identity(self) -> str:
        """Hash of what the weights depend on: a run goes on only with the settings that it began with."""
        chosen = {name: asdict(getattr(self, name)) for name in ("target", "data", "fit")}
        for group, indifferent in INDIFFERENT.items():
            for name in indifferent:
                chosen[group].pop(name, None)
        chosen |= {"draft_source": self.draft_source, "seed": self.seed}
        return hashlib.sha256(json.dumps(chosen, sort_keys=True).encode()).hexdigest()[:16]

    @property
    def command(self) -> str:
        return shlex.join(["python", "-m", "acctax.train", *self.overrides])


def from_hydra(cfg: DictConfig, overrides: Sequence[str] = ()) -> TrainRun:
    """The checked run of a composed configuration. Raises ConfigError, naming the field."""
    ours = OmegaConf.masked_copy(cfg, [key for key in cfg if key != "hydra"])
    for override in overrides:
        name, _, value = override.lstrip("+~").partition("=")
        require(not name.startswith("draft_source."), name, value,
                "is for running a head; the trainer's own fields are out, data and fit")
    chosen = OmegaConf.to_container(ours, resolve=True)
    kind = (chosen.get("draft_source") or {}).get("kind")
    require(kind in HEADS, "draft_source", kind, f"must be {' or '.join(HEADS)}: nothing else is trained")
    return replace(convert(TrainRun, chosen | {"draft_source": kind}), overrides=tuple(overrides))
