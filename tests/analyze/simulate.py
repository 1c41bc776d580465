"""Records with a known truth: acceptance by prompt, times by round, drift that both arms share."""

from dataclasses import dataclass, field, replace

import numpy as np

from acctax.record import Arm, PromptRecord, Record, Round

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
    tokens: int = 48,
    rounds: int = 6,
    spread: float = 0.5,  # of prompts' difficulty, in logits of α
    noise: float = 0.01,  # of each clocked time
    drift: float = 0.2,  # of the machine, shared by both arms within a round
    seed: int = 0,
    is_reference: bool = False,
    **choices: str | int | float,
) -> Record:
    rng = np.random.default_rng(seed)
    shift = rng.normal(0, spread, prompts)
    machine = np.exp(rng.uniform(-drift, drift, rounds))
    arms = []
    for side in (reference, candidate):
        decoded = [_prompt(f"p{i}", side, K, tokens, shift[i], rng) for i in range(prompts)]
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


def _prompt(
    name: str, side: Side, K: int, tokens: int, shift: float, rng: np.random.Generator
) -> PromptRecord:
    alpha = 1 / (1 + (1 / side.alpha - 1) * np.exp(-shift)) if side.alpha < 1 else 1.0
    accepted, committed = [], []
    while sum(committed) < tokens:
        hits = rng.random(K) < alpha
        accepted.append(K if hits.all() else int(hits.argmin()))
        committed.append(min(accepted[-1] + 1, tokens - sum(committed)))
    return PromptRecord(
        prompt_id=name,
        category="code",
        prompt_tokens=40,
        tokens=list(range(tokens)),
        drafted=[K] * len(accepted),
        accepted=accepted,
        committed=committed,
        capped=committed[-1] < accepted[-1] + 1,
        looped=False,
        seconds=len(accepted) * side.C(K),
    )


def _round(side: Side, K: int, machine: float, noise: float, rng: np.random.Generator) -> Round:
    def clock(seconds: float) -> float:
        return seconds * machine * np.exp(rng.normal(0, noise))

    T = {M: clock(side.T(M)) for M in range(1, K + 2)}
    return Round(T, clock(K * side.draft), clock(side.C(K)), clock(side.T1 + side.overhead))
