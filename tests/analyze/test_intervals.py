import math

import numpy as np
import pytest

from acctax.analyze.intervals import Estimate, estimate, resample, widen


def test_the_first_weights_are_the_sample_itself():
    weights = resample(7, 50, np.random.default_rng(0))
    assert weights.shape == (51, 7)
    assert weights[0] == pytest.approx(np.full(7, 1 / 7))
    assert weights.sum(1) == pytest.approx(np.ones(51))
    assert np.all(weights * 7 == np.round(weights * 7, 9))  # whole prompts, some drawn more than once


def test_the_same_seed_gives_the_same_weights():
    assert np.array_equal(
        resample(7, 50, np.random.default_rng(3)), resample(7, 50, np.random.default_rng(3))
    )


@pytest.mark.parametrize("n", [4, 6, 12, 40])
def test_a_mean_of_few_is_covered(n):
    rng = np.random.default_rng(n)
    covered = 0
    for _ in range(600):
        values = rng.normal(0, 1, n)
        e = estimate(widen(resample(n, 400, rng) @ values, n))
        covered += e.low <= 0 <= e.high
    assert 0.92 <= covered / 600 <= 0.98


def test_several_looks_err_as_seldom_as_one():
    """Whoever stops at the first of three looks whose interval leaves out the truth, at 10, 20 and 40 units."""
    rng = np.random.default_rng(0)

    def errs(values, looks):
        ends = (estimate(widen(resample(n, 400, rng) @ values[:n], n, looks)) for n in (10, 20, 40))
        return any(not e.low <= 0 <= e.high for e in ends)

    samples = rng.normal(0, 1, (600, 40))
    assert np.mean([errs(values, looks=3) for values in samples]) <= 0.06
    assert np.mean([errs(values, looks=1) for values in samples]) >= 0.08


def test_one_unit_has_no_interval():
    e = estimate(widen(resample(1, 20, np.random.default_rng(0)) @ np.array([2.0]), 1))
    assert e.value == 2 and math.isnan(e.low) and math.isnan(e.high)


def test_an_end_may_be_infinite():
    assert estimate(np.array([1.0, 0.5, np.inf, np.inf])) == Estimate(1, 0.5, np.inf)


def test_undefined_resamples_are_left_out():
    assert estimate(np.array([1.0, np.nan, 0.5, 1.5])) == Estimate(1, 0.5, 1.5)


def test_format():
    assert f"{Estimate(0.9523, 0.93, 0.9741):.2f}" == "0.95 [0.93, 0.97]"
    assert f"{Estimate(0.836, 0.7, math.inf):.1%}" == "83.6 % [70.0, ∞]"
    assert f"{Estimate(math.nan, math.nan, math.nan):.1%}" == "—"
    assert f"{Estimate(1.5, math.nan, math.nan):.1f}" == "1.5"
