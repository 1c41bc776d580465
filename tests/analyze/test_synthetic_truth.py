"""Does the analysis find what is true? Sweeps simulated with known acceptance, times and noise, analysed as usual.

Prompts of unequal length, acceptance that wanders along a text, a machine that drifts by 20 % under both arms. Of
2000 sweeps a coverage of 95 % is known to ±0.5 %, of 200 to ±1.5 %, too little to tell 93 from 95.
"""

import math
from collections import Counter
from dataclasses import replace

import pytest

from acctax import theory
from acctax.analyze import Rules, analyze
from acctax.analyze.verdicts import LOSSES
from tests.analyze.simulate import LEDGER, NVFP4, REFERENCE, simulate, true_tau

SWEEPS = 2000
DEPTHS = (1, 2, 4)
TEXTS = dict(tokens=48, uneven=0.5, spread=0.5, wander=0.7)
BODY = replace(REFERENCE, alpha=0.93, T1=5e-3, slope=0.08, overhead=0.9e-3,
               ledger={name: size * NVFP4 for name, size in LEDGER.items()})  # fmt: skip
NEAR = 0.01  # of the true tax: where a verdict's threshold lies


def truth(K):
    r, c = REFERENCE, BODY
    A = true_tau(c.alpha, K, **TEXTS) / true_tau(r.alpha, K, **TEXTS)
    W_bytes = sum(r.ledger.values()) / sum(c.ledger.values())
    W_cycle = (sum(r.ledger.values()) + K * r.drafter) / (sum(c.ledger.values()) + K * c.drafter)
    W_spec = A * r.C(K) / c.C(K)
    return {
        "tax/ln_kernels": math.log(W_bytes * c.T1 / r.T1),
        "tax/ln_verify_width": math.log(c.T(K + 1) / c.T1 / (r.T(K + 1) / r.T1)),
        "tax/ln_draft_and_overhead": math.log(c.C(K) / c.T(K + 1) / (r.C(K) / r.T(K + 1))),
        "tax/ln_acceptance": -math.log(A),
        "tax/counted": float(theory.counted_tax(W_cycle, A)),
        "tax/clocked": float(theory.acceptance_tax(W_spec, A)),
        "speed/W_AR": r.T1 / c.T1,
        "speed/W_spec": W_spec,
    }


@pytest.fixture(scope="module")
def swept():
    """By figure, in how many sweeps the interval holds the truth; by verdict, how often it is on the wrong side."""
    covered, wrong = Counter(), Counter()
    true = {K: truth(K) for K in DEPTHS}
    for seed in range(SWEEPS):
        K, above = DEPTHS[seed % len(DEPTHS)], seed % 2
        threshold = true[K]["tax/counted"] + (NEAR if above else -NEAR)
        record = simulate(K, candidate=BODY, noise=0.03, drift=0.2, seed=seed, **TEXTS)
        row = analyze(record, Rules(tax_threshold=threshold, resamples=1000), seed)
        for name, value in true[K].items():
            e = row.estimate(name)
            covered[name] += e.low <= value <= e.high
        if row.verdict == ("REJECT" if above else "ACCEPT"):
            wrong[row.verdict] += 1
    return covered, wrong


@pytest.mark.parametrize("name", [*LOSSES.values(), "tax/counted", "speed/W_AR"])
def test_coverage(swept, name):
    assert 0.93 <= swept[0][name] / SWEEPS <= 0.97


@pytest.mark.parametrize("name", ["speed/W_spec", "tax/clocked"])
def test_coverage_of_what_is_counted_and_clocked(swept, name):
    """Two small samples, each widened as if it were alone: rather too wide."""
    assert 0.93 <= swept[0][name] / SWEEPS <= 0.985


@pytest.mark.parametrize("name", ["REJECT", "ACCEPT"])
def test_verdicts_on_the_wrong_side(swept, name):
    assert swept[1][name] / (SWEEPS / 2) < 0.05
