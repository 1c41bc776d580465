"""The record of a measured cell: raw counts and clocked times, logged as it is and read back as it was.

Nothing here is derived. `analyze` turns a record into figures, intervals and a verdict, so that a sweep can be
analysed again, under other rules, on a machine without torch.
"""

import json
from dataclasses import asdict, dataclass, field


@dataclass(frozen=True)
class PromptRecord:
    """One prompt, decoded freely by one arm with K drafts a cycle. Lists have one entry a cycle."""

    prompt_id: str
    category: str
    prompt_tokens: int
    tokens: list[int]  # what was committed, the stop token included
    drafted: list[int]  # drafts that were verified (an n-gram may offer fewer than K)
    accepted: list[int]  # drafts that the rule accepted, before any cut at a stop token or at the cap
    committed: list[int]  # tokens kept, after the cut
    capped: bool  # the last cycle was cut by max_new_tokens
    looped: bool  # the text repeats itself
    seconds: float  # the decoding loop, prefill excluded
    joules: float | None = None  # the GPU's, in that loop; None where nothing counts them


@dataclass(frozen=True)
class Along:
    """Drafts of one arm along a text that is there, each judged by the arm's own target. Sums over chains, by depth."""

    overlap: list[float]  # Σ min(p, q)
    alive: list[float]  # the chance that this draft and all before it are accepted


@dataclass(frozen=True)
class Scored:
    """One prompt's text, written by the reference, read by both arms without decoding. Sums over its positions.

    TV, KL and the likelihoods are of the models' laws at temperature 1, whatever the decoding is.
    """

    prompt_id: str
    positions: int
    tv: float  # total variation between the targets' laws
    kl: float  # of the candidate's law from the reference's, in nats
    agree: int  # positions where both arg-max are one
    nll_reference: float  # of the text, in nats
    nll_candidate: float
    chains: int  # of K drafts: one from each position that has K tokens of text
    reference: Along
    candidate: Along


@dataclass(frozen=True)
class Round:
    """The clock of one arm in one interleaved round: medians over a few cycles, in seconds."""

    T: dict[int, float]  # rows M → one target pass over M new rows, M = 1..K+1
    D: float  # drafting K tokens, the drafter's own cache upkeep included
    C: float  # a whole cycle; the overhead is O = C − T[K+1] − D
    C_ar: float  # a whole plain (AR) step


@dataclass(frozen=True)
class Arm:
    """Reference or candidate. Rounds and prompts pair with the other arm's by index."""

    prompts: list[PromptRecord]
    rounds: list[Round]
    bytes_ar: dict[str, float]  # component → bytes that one AR step must read, as stored
    bytes_cycle: dict[str, float]  # the same for one cycle: a pass over K+1 rows and K drafter passes ("drafter")


@dataclass(frozen=True)
class Lossless:
    """Greedy text under speculation against what the same target decodes plainly, for one prompt of one arm."""

    arm: str  # "reference" or "candidate"
    prompt_id: str
    tokens: int  # that were compared
    diverged_at: int | None = None  # the first token of the answer, from 0, that plain decoding chooses otherwise
    logit_gap: float = 0.0  # there: by how much the target prefers its own token; small is a near-tie

    @property
    def holds(self) -> bool:
        return self.diverged_at is None


@dataclass(frozen=True)
class Record:
    choices: dict[str, str | int | float]  # the short names: target, target_quant, drafter_quant, draft_source, K, …
    cell_id: str
    is_reference: bool  # the candidate is the reference: an A/A measurement, the noise floor
    reference: Arm
    candidate: Arm
    bandwidth: list[float]  # bytes/s a large read reached, one a round, same process
    environment: dict[str, str]  # hardware, threads, kernels, versions, commit; rivals: processes that measured too
    rerun: str  # the command that measures this cell again
    same_context: list[Scored] = field(default_factory=list)  # one a prompt
    losslessness: list[Lossless] = field(default_factory=list)  # of a sample of the prompts, greedy cells alone
    looks: int = 1  # how often the verdict could have ended the measurement (measure=auto): intervals make up for it
    memory_peak: int = 0  # bytes: of the GPU's memory while prompts were decoded, of the process's on a CPU
    stopped_because: str = ""  # of measure=auto: what ended it, and after how much

    def to_json(self) -> str:
        return json.dumps(asdict(self), indent=1)

    @classmethod
    def from_json(cls, text: str) -> "Record":
        raw = json.loads(text)
        arms = {name: _arm(raw[name]) for name in ("reference", "candidate")}
        same_context = [_scored(scored) for scored in raw.get("same_context", [])]
        losslessness = [Lossless(**checked) for checked in raw.get("losslessness", [])]
        return cls(**{**raw, **arms, "same_context": same_context, "losslessness": losslessness})


def _arm(raw: dict) -> Arm:
    rounds = [Round(**{**r, "T": {int(m): t for m, t in r["T"].items()}}) for r in raw["rounds"]]
    return Arm(**{**raw, "prompts": [PromptRecord(**p) for p in raw["prompts"]], "rounds": rounds})


def _scored(raw: dict) -> Scored:
    return Scored(**{**raw, **{name: Along(**raw[name]) for name in ("reference", "candidate")}})


@dataclass(frozen=True)
class Lever:
    """The fastest candidate of a sweep with one component more in NVFP4: counted and scored, never decoded."""

    component: str  # "lm_head", "q,k,v", "o", "mlp", "kv cache", "drafter"
    recipe: list[str]  # patterns of the modules that would be stored so besides; none for the cache
    bytes_ar: dict[str, float]  # as an arm's
    bytes_cycle: dict[str, float]
    same_context: list[Scored]  # against the cell's reference; none for the cache, whose format nothing computes in


def levers_to_json(levers: list[Lever]) -> str:
    return json.dumps([asdict(lever) for lever in levers], indent=1)


def levers_from_json(text: str) -> list[Lever]:
    raw = json.loads(text)
    return [Lever(**{**lever, "same_context": [_scored(scored) for scored in lever["same_context"]]}) for lever in raw]


@dataclass(frozen=True)
class Failure:
    """A cell that could not be measured."""

    name: str  # the choices that tell it from the others of its sweep
    reason: str
    rerun: str


@dataclass(frozen=True)
class Measured:
    """What a sweep leaves behind, all that a report is made of."""

    records: list[Record]  # in the order they were measured
    failures: list[Failure] = field(default_factory=list)
    levers: list[Lever] = field(default_factory=list)
