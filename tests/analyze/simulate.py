"""Records with a known truth: acceptance by prompt, times by round, drift that both arms share."""

from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from acctax.record import Arm, PromptRecord, Record, Round

MEMORY = 0.8  # of a text's ease, from one cycle to the next

LEDGER = {"q": 20e6, "k": 7e6, "v": 7e6, "o": 20e6, "mlp": 159e6, "lm_head": 56e6, "kv": 2e6}  # bytes in bf16


@dataclass(frozen=True)
class Side:
    """What is true of one arm; seconds and bytes."""

    alpha: float = 0.97  # of a prompt of mean difficulty
    T1: float = 13e-3
    slope: float = 0.04  # T(M) = T1·(1 + slope·(M−1))
    draft: float = 6.5e-3  # one draft
    overhead: float = 0.6e-3
    ledger: dict[str, float] = field(default_factory=lambda: dict(LEDGER))
    drafter: float = 135e6  # bytes of one draft

    def T(self, M: int) -> float:
        return self.T1 * (1 + self.slope * (M - 1))

    def C(self, K: int) -> float:
        return self.T(K + 1) + K * self.draft + self.overhead


REFERENCE = Side()
NVFP4 = 0.5625 / 2  # of bf16's bytes
QKV = replace(
    REFERENCE,
    alpha=0.86,
    T1=11.9e-3,
    ledger=LEDGER | {name: LEDGER[name] * NVFP4 for name in ("q", "k", "v")},
)


def simulate(
    K: int = 3,
    reference: Side = REFERENCE,
    candidate: Side = QKV,
    *,
    prompts: int = 24,
    tokens: int = 48,  # the cap
    uneven: float = 0.0,  # of the texts' own lengths, in logarithms about the cap; 0: the cap ends every text
    rounds: int = 6,
    spread: float = 0.5,  # of prompts' difficulty, in logits of α
    wander: float = 0.0,  # of α along a text, in logits, each cycle correlated with the next by MEMORY
    noise: float = 0.01,  # of each clocked time
    drift: float = 0.2,  # of the machine, shared by both arms within a round
    seed: int = 0,
    is_reference: bool = False,
    **choices: str | int | float,
) -> Record:
    rng = np.random.default_rng(seed)
    texts = Texts.of(prompts, tokens, uneven, spread, rng)
    machine = np.exp(rng.uniform(-drift, drift, rounds))
    arms = []
    for side in (reference, candidate):
        decoded = _prompts(texts, _accept(texts, side.alpha, K, wander, rng), K, side.C(K))
        clocked = [_round(side, K, factor, noise, rng) for factor in machine]
        cycle = side.ledger | {"drafter": K * side.drafter}
        arms.append(Arm(decoded, clocked, dict(side.ledger), cycle))
    if is_reference:  # greedy decoding of the same weights: the same text, only the clock differs
        arms[1] = replace(arms[1], prompts=arms[0].prompts)
    named = {
        "target": "smollm2_135m",
        "target_quant": "bf16" if is_reference else "nvfp4_qkv",
        "drafter_quant": "none",
        "draft_source": "self:int8_all",
        "K": K,
        "workload": "mixed",
        "decoding": "greedy",
        "device": "cpu",
        "seed": 0,
    } | choices
    return Record(
        choices=named,
        cell_id=f"{named['target_quant']}-{K}",
        is_reference=is_reference,
        reference=arms[0],
        candidate=arms[1],
        bandwidth=list(21.3e9 / machine),
        environment={
            "hardware": "Simulated CPU, 2 threads",
            "kernels": "native avx512",
            "versions": "python 3.11.7, torch 2.13.0",
            "commit": "0123456789ab",
        },
        rerun=f"python -m acctax target_quant={named['target_quant']} K={K} tracking.reuse=false",
    )


@dataclass(frozen=True)
class Texts:
    """What both arms write: lengths where a stop token ends them, cut at the cap, and how hard they are [P]."""

    lengths: NDArray[np.int64]
    cap: int
    shift: NDArray[np.float64]  # in logits of α

    @classmethod
    def of(cls, n: int, cap: int, uneven: float, spread: float, rng: np.random.Generator) -> "Texts":
        shift = rng.normal(0, spread, n)
        own = cap * np.exp(rng.normal(0, uneven, n)) if uneven else np.full(n, cap + 1)
        return cls(np.maximum(own, 2).astype(int), cap, shift)


def true_tau(alpha: float, K: int, *, tokens: int, uneven: float, spread: float, wander: float) -> float:
    """Committed tokens per cycle of the whole population of prompts, a cycle that the cap cuts taken whole."""
    rng = np.random.default_rng(12345)
    texts = Texts.of(40_000, tokens, uneven, spread, rng)
    accepted = _accept(texts, alpha, K, wander, rng)
    end = np.minimum(texts.lengths, texts.cap)[:, None]
    before = np.cumsum(accepted + 1, 1) - accepted - 1
    begun = before < end
    stopped = texts.lengths[:, None] <= texts.cap  # what a stop token cuts is lost, what the cap cuts is not
    committed = np.where(stopped, np.minimum(accepted + 1, end - before), accepted + 1)
    return float(committed[begun].sum() / begun.sum())


def _accept(texts: Texts, alpha: float, K: int, wander: float, rng: np.random.Generator) -> NDArray[np.int64]:
    """Accepted drafts of every cycle that each prompt could need [P, cycles]."""
    P, cycles = len(texts.lengths), int(min(texts.lengths.max(), texts.cap))
    ease = np.empty((P, cycles))
    ease[:, 0] = rng.normal(0, 1, P)
    for t in range(1, cycles):
        ease[:, t] = MEMORY * ease[:, t - 1] + np.sqrt(1 - MEMORY**2) * rng.normal(0, 1, P)
    logit = texts.shift[:, None] + wander * ease + (np.log(alpha / (1 - alpha)) if alpha < 1 else np.inf)
    # a geometric length, cut at K: how many uniforms in a row stay below α
    with np.errstate(divide="ignore"):
        return np.minimum(np.log(rng.random((P, cycles))) // -np.logaddexp(0, -logit), K).astype(int)


def _prompts(texts: Texts, accepted: NDArray[np.int64], K: int, C: float) -> list[PromptRecord]:
    records = []
    for i, (length, row) in enumerate(zip(texts.lengths, accepted)):
        end = min(int(length), texts.cap)
        whole = np.cumsum(row + 1)
        cycles = int(np.searchsorted(whole, end)) + 1
        row = row[:cycles].tolist()
        committed = [accepted + 1 for accepted in row]
        cut = int(whole[cycles - 1]) - end
        committed[-1] -= cut
        records.append(
            PromptRecord(
                prompt_id=f"p{i}",
                category="code",
                prompt_tokens=40,
                tokens=list(range(end)),
                drafted=[K] * cycles,
                accepted=row,
                committed=committed,
                capped=cut > 0 and int(length) > texts.cap,
                looped=False,
                seconds=cycles * C,
            )
        )
    return records


def _round(side: Side, K: int, machine: float, noise: float, rng: np.random.Generator) -> Round:
    def clock(seconds: float) -> float:
        return seconds * machine * np.exp(rng.normal(0, noise))

    T = {M: clock(side.T(M)) for M in range(1, K + 2)}
    return Round(T, clock(K * side.draft), clock(side.C(K)), clock(side.T1 + side.overhead))
