from dataclasses import replace

import numpy as np
import pytest

from acctax.analyze import Rules, analyze, sweep
from acctax.record import Along, Scored
from tests.analyze.simulate import QKV, REFERENCE, simulate

RULES = Rules(resamples=200)
EXACT = dict(noise=0, drift=0)


def scored(chains: int, reference: list[float], candidate: list[float]) -> Scored:
    """alive, by depth, of either arm."""
    arms = (Along(overlap=[0.0] * len(alive), alive=alive) for alive in (reference, candidate))
    return Scored("p", 50, 1.0, 0.1, 48, 60.0, 61.0, chains, *arms)


ALONG = [scored(10, [9.0, 8.0, 7.0], [8.0, 6.0, 5.0]), scored(30, [27.0, 25.0, 24.0], [22.0, 18.0, 15.0])]
SCORED = replace(simulate(K=3, prompts=2), same_context=ALONG)


def test_classic_takes_a_verification_for_a_plain_pass():
    row = analyze(simulate(K=3, **EXACT), RULES)
    for suffix, side in (("_ref", REFERENCE), ("", QKV)):
        tok_s = row[f"accept/tau{suffix}"] / (side.T1 + 3 * side.draft)
        assert row[f"predict/classic_tok_s{suffix}"] == pytest.approx(tok_s)
        assert row[f"predict/classic_residual{suffix}"] == pytest.approx(side.C(3) / (side.T1 + 3 * side.draft) - 1)


def test_refined_is_exact_where_a_cycle_is_the_sum_of_its_parts():
    row = analyze(simulate(K=3, **EXACT), RULES)
    assert row["predict/refined_tok_s"] == pytest.approx(row["speed/tok_s"])
    assert row["predict/refined_residual_ref"] == pytest.approx(0, abs=1e-12)


def test_refined_is_no_identity():
    """A cycle that takes longer than its parts: the prediction does not follow it."""
    record = simulate(K=3, **EXACT)
    slow = [replace(r, C=1.25 * r.C) for r in record.candidate.rounds]
    row = analyze(replace(record, candidate=replace(record.candidate, rounds=slow)), RULES)
    assert row["predict/refined_residual"] == pytest.approx(0.25)


def test_forecast_knows_bytes_bandwidth_and_one_text():
    row = analyze(SCORED, RULES)
    for suffix, side, tau in (("_ref", REFERENCE, 1 + 100 / 40), ("", QKV, 1 + 74 / 40)):
        cycle = sum(side.ledger.values()) + 3 * side.drafter
        tok_s = tau * 1e9 * row["bytes/bandwidth_GBs"] / cycle
        assert row[f"predict/forecast_tok_s{suffix}"] == pytest.approx(tok_s)
        assert row[f"predict/forecast_residual{suffix}"] == pytest.approx(tok_s / row[f"speed/tok_s{suffix}"] - 1)


def test_plain_decoding_is_forecast_without_a_text():
    row = analyze(simulate(K=0, **EXACT), RULES)
    assert row["predict/forecast_tok_s_ref"] == pytest.approx(21.3e9 / sum(REFERENCE.ledger.values()))


def test_no_text_no_forecast():
    assert np.isnan(analyze(simulate(), RULES)["predict/forecast_tok_s"])


def test_median_residual_is_over_both_arms_and_all_valid_cells():
    records = [simulate(K=K, seed=K, **EXACT) for K in (1, 2, 3)]
    broken = replace(records[0], candidate=replace(records[0].candidate, bytes_ar={}))
    rows = [analyze(record, RULES) for record in records]
    measured = sweep([*rows, analyze(replace(broken, choices=broken.choices | {"K": 1, "seed": 1}), RULES)])
    residuals = [abs(row[f"predict/classic_residual{arm}"]) for row in rows for arm in ("", "_ref")]
    assert measured.median_residual("classic") == pytest.approx(np.median(residuals))
    assert measured.median_residual("refined") == pytest.approx(0, abs=1e-12)
    assert np.isnan(measured.median_residual("forecast"))
