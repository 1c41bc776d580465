"""The schema: one frozen dataclass per group of conf/, checked when a cell is composed.

Everything that needs no model is checked here (ConfigError); what needs its files is `measure.job.preflight`'s.
A key that no dataclass knows is refused, so that a misspelt choice never passes silently.
"""

import hashlib
import json
import math
import os
import shlex
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import ClassVar, Literal

from hydra.core.config_store import ConfigStore
from omegaconf import DictConfig, OmegaConf

from acctax.paths import conf_dir
from acctax.schema import convert, require


def _at_least(low: int, group: str, **values: int | None) -> None:
    for name, value in values.items():
        require(value is None or value >= low, f"{group}.{name}", value, f"must be at least {low}")


@dataclass(frozen=True)
class GgufTarget:
    """A GGUF file inside an installed Python package."""

    name: str
    package: str
    file: str
    chat: bool  # prompts go through the model's chat template; else as plain text
    description: str = ""
    cache_dir: str | None = None
    kind: Literal["gguf_package"] = "gguf_package"

    @property
    def label(self) -> str:
        return self.name


@dataclass(frozen=True)
class HubTarget:
    """A local folder or a hub id with safetensors."""

    name: str
    path: str
    kind: Literal["hf"] = "hf"

    @property
    def label(self) -> str:
        return f"{self.name}:{self.path}"


@dataclass(frozen=True)
class RandomLlamaTarget:
    """Random weights of a given size: for tests and for timing, no text worth reading."""

    name: str
    layers: int
    hidden: int
    heads: int
    kv_heads: int
    intermediate: int
    vocab: int
    context: int
    tie: bool
    seed: int
    kind: Literal["random_llama"] = "random_llama"

    def __post_init__(self) -> None:
        _at_least(1, "target", layers=self.layers, heads=self.heads, kv_heads=self.kv_heads, vocab=self.vocab,
                  hidden=self.hidden, intermediate=self.intermediate, context=self.context)
        require(self.hidden % (2 * self.heads) == 0, "target.hidden", self.hidden,
                 f"must be an even multiple of target.heads ({self.heads})")
        require(self.heads % self.kv_heads == 0, "target.kv_heads", self.kv_heads,
                 f"must divide target.heads ({self.heads})")

    @property
    def label(self) -> str:
        return f"{self.name}:{self.layers}x{self.hidden}"


@dataclass(frozen=True)
class Rule:
    """Modules whose name matches `pattern` (fnmatch) are stored in `format`; group: weights that share a scale."""

    pattern: str
    format: str
    group: int | None = None

    def __post_init__(self) -> None:
        require(self.group is None or self.group > 0, "group", self.group, "must be at least 1")


@dataclass(frozen=True)
class Recipe:
    """An ordered list of rules, the first match wins; without rules, everything stays as loaded."""

    name: str
    rules: tuple[Rule, ...] = ()


AS_LOADED = Recipe("bf16")


class DraftChoice:
    """What the draft_source group may hold: an open union, each file of draft/ adds a frozen dataclass of its own.

    A member's field `kind` names it in conf/; `label` is its short name in tables, with the fields that matter.
    """

    members: ClassVar[dict[str, type["DraftChoice"]]] = {}
    kind: str
    takes_recipe: ClassVar[bool] = False  # there are weights that drafter_quant could store otherwise
    brings_recipe: ClassVar[bool] = False  # a format belongs to the source: drafter_quant=bf16 is a change too
    most_drafts: ClassVar[int | None] = None  # a cycle; None: any number
    forces_acceptance: ClassVar[bool] = False  # drafts are kept as the source says, not as the target thinks

    def __init_subclass__(cls) -> None:
        if hasattr(cls, "kind"):
            DraftChoice.members[cls.kind] = cls

    @property
    def label(self) -> str:
        return self.kind

    @property
    def fingerprint(self) -> tuple[str, ...]:
        """What tells apart drafters that the fields name alike, such as a head that was trained again."""
        return ()


@dataclass(frozen=True)
class Workload:
    name: str
    path: str  # a JSONL file; "conf:…" lies inside conf/

    @property
    def file(self) -> Path:
        inside = self.path.removeprefix("conf:")
        return conf_dir() / inside if inside != self.path else Path(self.path).expanduser()

    @property
    def label(self) -> str:
        return self.name if self.path.startswith("conf:") else f"{self.name}:{self.path}"


@dataclass(frozen=True)
class Decoding:
    name: str
    temperature: float  # 0 is greedy
    top_k: int  # 0 is off
    top_p: float  # 1 is off

    def __post_init__(self) -> None:
        require(0 <= self.temperature < math.inf, "decoding.temperature", self.temperature,
                "must be 0 (greedy) or above, and finite")
        require(self.top_k >= 0, "decoding.top_k", self.top_k, "must be 0 (off) or above")
        require(0 < self.top_p <= 1, "decoding.top_p", self.top_p, "must lie in (0, 1]")
        greedy = "must be {} at temperature 0, which takes the most likely token"
        require(self.temperature > 0 or self.top_k == 0, "decoding.top_k", self.top_k, greedy.format(0))
        require(self.temperature > 0 or self.top_p == 1, "decoding.top_p", self.top_p, greedy.format(1))

    @property
    def label(self) -> str:
        if self.temperature == 0:
            return "greedy"
        top = (f",k={self.top_k}" if self.top_k else "") + (f",p={self.top_p:g}" if self.top_p < 1 else "")
        return f"sample:T={self.temperature:g}{top}"


@dataclass(frozen=True)
class Device:
    name: Literal["cpu", "cuda", "auto"]  # auto, a GPU where there is one, is one of the others once it is composed
    threads: int | None  # None: one per physical core
    kernels: Literal["native", "reference"]

    def __post_init__(self) -> None:
        require(self.name != "cuda" or self.kernels == "native", "device.kernels", self.kernels,
                "must be native on a GPU: what asks the host between two ops is in no CUDA graph")
        available = os.cpu_count() or 1
        require(self.threads is None or 1 <= self.threads <= available, "device.threads", self.threads,
                f"must lie in 1 to {available}, the processors of this machine")

    @property
    def label(self) -> str:
        threads = f":{self.threads}" if self.threads else ""
        return self.name + threads + (":reference" if self.kernels == "reference" else "")


@dataclass(frozen=True)
class Budget:
    """How far a measurement may grow in search of a verdict."""

    prompts: int
    rounds: int
    seconds: float  # past these it grows no more


@dataclass(frozen=True)
class Measure:
    name: str
    prompts: int
    max_new_tokens: int
    rounds: int
    cycles: int  # per round
    resamples: int  # of the bootstrap
    levers: bool  # at the end of a sweep, ask what more of the fastest candidate could be quantized
    budget: Budget | None = None  # None: prompts and rounds are as many as said

    def __post_init__(self) -> None:
        _at_least(1, "measure", prompts=self.prompts, rounds=self.rounds, cycles=self.cycles)
        if self.budget:
            for unit in ("prompts", "rounds"):
                least, most = getattr(self, unit), getattr(self.budget, unit)
                require(most >= least, f"measure.budget.{unit}", most, f"must be at least measure.{unit} ({least})")
            require(self.budget.seconds > 0, "measure.budget.seconds", self.budget.seconds, "must be above 0")
        _at_least(2, "measure", max_new_tokens=self.max_new_tokens)
        _at_least(100, "measure", resamples=self.resamples)


@dataclass(frozen=True)
class Verdict:
    tax_threshold: float = 0.5  # a share: 0.5 is 50 %
    margin: float = 0.0  # W_spec must exceed 1 + margin
    resamples: int = 2000  # conf/ takes it from the measure group

    def __post_init__(self) -> None:
        require(0 < self.tax_threshold <= 1, "verdict.tax_threshold", self.tax_threshold,
                "must lie in (0, 1], a share of the byte win")
        require(self.margin >= 0, "verdict.margin", self.margin, "must be 0 or above")


@dataclass(frozen=True)
class Tracking:
    uri: str | None  # None: MLFLOW_TRACKING_URI, else mlruns/mlflow.db below the working directory
    experiment: str
    artifacts: str | None  # None: the server's choice, mlruns/artifacts with the local file
    reuse: bool  # a finished cell is not measured twice


Target = GgufTarget | HubTarget | RandomLlamaTarget


@dataclass(frozen=True)
class Cell:
    """One configuration, to be measured against its reference."""

    target: Target
    target_quant: Recipe
    drafter_quant: Recipe | None
    draft_source: DraftChoice
    K: int
    workload: Workload
    decoding: Decoding
    device: Device
    measure: Measure
    verdict: Verdict
    tracking: Tracking
    seed: int
    overrides: tuple[str, ...] = field(default=(), compare=False)  # as given on the command line

    def __post_init__(self) -> None:
        require(self.K >= 0, "K", self.K, "must be 0 (plain decoding) or above")
        require(self.K == 0 or self.draft_source.kind != "none", "K", self.K,
                "must be 0 with draft_source=none, which drafts nothing")
        most = self.draft_source.most_drafts
        require(most is None or self.K <= most, "K", self.K,
                f"must be at most {most}: draft_source={self.draft_source.kind} has acceptance for no more drafts")
        require(self.K <= self.measure.max_new_tokens, "K", self.K,
                f"must be at most measure.max_new_tokens ({self.measure.max_new_tokens})")
        takes_recipe = self.draft_source.takes_recipe or self.drafter_quant is None
        require(takes_recipe, "drafter_quant", getattr(self.drafter_quant, "name", None),
                f"must be none: draft_source={self.draft_source.kind} has no weights")
        require(0 <= self.seed < 1 << 31, "seed", self.seed, "must lie in 0 to 2147483647")

    @property
    def is_reference(self) -> bool:
        """Whether no `*_quant` choice changes anything: the candidate is then measured against itself."""
        drafter_kept = self.drafter_quant is None or not (self.drafter_quant.rules or self.draft_source.brings_recipe)
        return not self.target_quant.rules and (drafter_kept or self.K == 0)

    def reference(self) -> "Cell":
        """The same cell with every `*_quant` choice taken away; the draft source keeps its own format."""
        return replace(self, target_quant=AS_LOADED, drafter_quant=None)

    def choices(self) -> dict[str, str | int]:
        """The short names that tell cells apart, as MLflow shows them."""
        return {
            "target": self.target.label,
            "target_quant": self.target_quant.name,
            "drafter_quant": self.drafter_quant.name if self.drafter_quant else "none",
            "draft_source": self.draft_source.label,
            "K": self.K,
            "workload": self.workload.label,
            "decoding": self.decoding.label,
            "device": self.device.label,
            "seed": self.seed,
        }

    @property
    def scheme(self) -> str:
        """The choices without K: a line of the chart over K."""
        chosen = self.choices()
        return " ".join(f"{name}={value}" for name, value in chosen.items() if name != "K")

    @property
    def cell_id(self) -> str:
        """Hash of every choice that the measurement depends on; workload and drafter by their contents."""
        chosen = asdict(self)
        for volatile in ("verdict", "tracking", "overrides"):
            del chosen[volatile]
        del chosen["measure"]["resamples"], chosen["measure"]["levers"], chosen["workload"]["path"]
        for where in ("cache_dir", "description"):
            chosen["target"].pop(where, None)
        contents = [self.workload.file.read_bytes()] if self.workload.file.is_file() else []
        contents += [part.encode() for part in self.draft_source.fingerprint]
        return hashlib.sha256(b"".join([json.dumps(chosen, sort_keys=True).encode(), *contents])).hexdigest()[:16]

    @property
    def rerun_command(self) -> str:
        kept = [o for o in self.overrides if not o.lstrip("+~").startswith(("tracking", "verdict", "hydra"))]
        return shlex.join(["python", "-m", "acctax", *kept, "tracking.reuse=false"])

    def to_yaml(self) -> str:
        return OmegaConf.to_yaml(OmegaConf.create(asdict(self)))


def from_hydra(cfg: DictConfig, overrides: Sequence[str] = ()) -> Cell:
    """The checked cell of a composed configuration; overrides: the command line that composed it.

    Raises ConfigError, naming the field, its value and what is allowed.
    """
    ours = OmegaConf.masked_copy(cfg, [key for key in cfg if key != "hydra"])
    chosen = OmegaConf.to_container(ours, resolve=True)
    if isinstance(chosen.get("device"), dict):
        chosen["device"]["name"] = _present(chosen["device"].get("name"))
    if chosen.get("drafter_quant") == {"name": "none"}:
        chosen["drafter_quant"] = None
    return replace(convert(Cell, chosen), overrides=tuple(overrides))


def _present(device: str | None) -> str | None:
    """What `auto` stands for on this machine. Raises ConfigError for a GPU that is not there."""
    if device not in ("cuda", "auto"):
        return device
    from torch import cuda  # not before a cell is composed: help and analysis do without

    if device == "auto":
        return "cuda" if cuda.is_available() else "cpu"
    require(cuda.is_available(), "device", device, "must be cpu or auto: this machine or its torch has no GPU")
    return device


def register_options() -> None:
    """Offer every recipe of conf/target_quant as an option of drafter_quant too. Before Hydra composes."""
    for file in sorted((conf_dir() / "target_quant").glob("*.yaml")):
        ConfigStore.instance().store(group="drafter_quant", name=file.stem, node=OmegaConf.load(file))
