import math
from dataclasses import replace

import pytest

from acctax.analyze import Rules, analyze, sweep
from acctax.analyze.interaction import interactions
from tests.analyze.simulate import REFERENCE, simulate

K = 4
CERTAIN = replace(REFERENCE, alpha=1.0)  # every draft is accepted: nothing but time is at stake
LIGHT = replace(CERTAIN, T1=6e-3)
QUICK = replace(CERTAIN, draft=3e-3)
BOTH = replace(CERTAIN, T1=6e-3, draft=3e-3)


def row(side, target_quant="bf16", drafter_quant="none", seed=0, **kwargs):
    named = dict(target_quant=target_quant, drafter_quant=drafter_quant)
    return analyze(simulate(K, CERTAIN, side, seed=seed, **named, **kwargs), Rules(resamples=300))


def cells(**kwargs):
    return [row(LIGHT, "nvfp4", seed=1, **kwargs), row(QUICK, drafter_quant="int4", seed=2, **kwargs),
            row(BOTH, "nvfp4", "int4", seed=3, **kwargs)]  # fmt: skip


def test_each_share_of_a_cycle_weighs_more_once_the_other_has_shrunk():
    (found,) = interactions(sweep(cells(noise=0, drift=0.5)))
    ln = {name: math.log(CERTAIN.C(K) / side.C(K)) for name, side in (("t", LIGHT), ("d", QUICK), ("both", BOTH))}
    assert found.target.value == pytest.approx(ln["t"])
    assert found.drafter.value == pytest.approx(ln["d"])
    assert found.both.value == pytest.approx(ln["both"])
    assert found.beyond.value == pytest.approx(ln["both"] - ln["t"] - ln["d"])
    assert found.beyond.value > 0
    assert (found.choices["target_quant"], found.choices["drafter_quant"]) == ("nvfp4", "int4")


def test_the_interval_holds_the_truth():
    beyond = math.log(CERTAIN.C(K) / BOTH.C(K)) - math.log(CERTAIN.C(K) ** 2 / LIGHT.C(K) / QUICK.C(K))
    (found,) = interactions(sweep(cells(noise=0.02)))
    assert found.beyond.low < beyond < found.beyond.high
    assert found.beyond.high - found.beyond.low < 0.2


def test_nothing_without_all_three_cells_at_one_K():
    target, drafter, both = cells()
    assert interactions(sweep([target, drafter])) == interactions(sweep([target, both])) == []
    elsewhere = replace(drafter, choices=drafter.choices | {"K": 5})
    assert interactions(sweep([target, elsewhere, both])) == []
