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
    texts = [Scored(prompt.prompt_id, 50, 50 * (tv + 0.001 * i), 50 * tv**2, 45, 100.0, 104.0, chains, *arms)
             for i, prompt in enumerate(record.reference.prompts)]  # fmt: skip
    return replace(record, same_context=texts)
