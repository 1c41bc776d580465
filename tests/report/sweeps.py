"""Simulated sweeps that reports are made of."""

from collections.abc import Sequence
from dataclasses import replace

from acctax import report
from acctax.analyze import Rules
from acctax.record import Along, Failure, Measured, Record, Scored
from acctax.report.findings import Findings
from tests.analyze.simulate import LEDGER, NVFP4, REFERENCE, simulate

RULES = Rules(resamples=300)
BONUS = replace(REFERENCE, alpha=0.99, T1=9e-3, ledger={name: size * NVFP4 for name, size in LEDGER.items()})
FAILURE = Failure("int4 K=3", "MemoryError: no room for it", "python -m acctax target_quant=int4 K=3")


def read(records: Sequence[Record], *failures: Failure) -> Findings:
    return report.read(Measured(list(records), list(failures)), RULES)


def over_K() -> list[Record]:
    return [simulate(K, seed=K) for K in range(1, 7)]


def over_schemes() -> list[Record]:
    broken = simulate(3, target_quant="nvfp4_lm_head")
    return [
        simulate(3, target_quant="nvfp4_qkv"),
        simulate(3, reference=replace(REFERENCE, alpha=0.8), candidate=BONUS, target_quant="nvfp4"),
        simulate(3, candidate=REFERENCE, is_reference=True),
        replace(broken, candidate=replace(broken.candidate, rounds=[])),
        simulate(3, candidate=replace(REFERENCE, T1=14e-3), target_quant="fp32"),  # no byte fewer
        simulate(0, target_quant="int8"),
    ]


def scored(record: Record, tv: float, alpha: float = 0.9) -> Record:
    """The same with both arms read along the reference's text, `tv` apart."""
    K = int(record.choices["K"])
    chains = 40 if K else 0

    def along(alpha: float) -> Along:
        return Along([chains * alpha] * K, [chains * alpha**i for i in range(1, K + 1)])

    arms = along(0.97), along(alpha)
    texts = [Scored(prompt.prompt_id, 50, 50 * tv * (1 + 0.02 * i), 50 * tv**2, 45, 100.0, 104.0, chains, *arms)
             for i, prompt in enumerate(record.reference.prompts)]  # fmt: skip
    return replace(record, same_context=texts)


# recipe → share of the bytes that it leaves, TV, α, T(1) in ms: near what a 135M model gives
RECIPES = {
    "bf16": (1, 0, 0.97, 13.0), "nvfp4_qkv": (0.91, 0.046, 0.88, 11.9), "nvfp4_o": (0.947, 0.031, 0.92, 12.5),
    "nvfp4_mlp": (0.58, 0.092, 0.84, 9.8), "nvfp4_lm_head": (0.85, 0.029, 0.93, 12.1), "nvfp4": (0.44, 0.118, 0.8, 9.1),
    "nvfp4_all": (0.29, 0.126, 0.8, 8.6), "nvfp4_a8": (0.44, 0.119, 0.8, 8.7), "nvfp4_a8_all": (0.29, 0.128, 0.79, 7.9),
    "mxfp4": (0.42, 0.139, 0.77, 8.8), "nf4": (0.43, 0.104, 0.82, 8.9), "int4": (0.43, 0.121, 0.8, 9.0),
    "int8": (0.6, 0.0101, 0.96, 10.4), "int8_all": (0.52, 0.0118, 0.96, 9.9), "fp8": (0.6, 0.025, 0.94, 10.6),
}  # fmt: skip


def over_recipes(K: int = 3, longer: str = "", **choices) -> list[Record]:
    """A sweep over every recipe, scored; longer: what every candidate's name ends in."""
    records = []
    for seed, (name, (left, tv, alpha, T1)) in enumerate(RECIPES.items()):
        side = replace(REFERENCE, alpha=alpha, T1=T1 / 1e3, ledger={part: left * size for part, size in LEDGER.items()})
        record = simulate(K, candidate=side, seed=seed, prompts=8, target_quant=name + longer * (name != "bf16"),
                          is_reference=name == "bf16", **choices)  # fmt: skip
        records.append(scored(record, tv, alpha))
    return records
