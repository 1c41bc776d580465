from dataclasses import replace

import numpy as np
import pytest

from acctax import theory
from acctax.analyze import Rules, analyze, sweep
from acctax.analyze.best_k import predicted_K, tune
from acctax.analyze.figures import Figures
from tests.analyze.simulate import QKV, REFERENCE, simulate

RULES = Rules(resamples=300)
EXACT = dict(noise=0, drift=0, spread=0, prompts=300)
CHEAP = replace(REFERENCE, alpha=0.9, draft=2.6e-3)  # c = 0.2
WORSE = replace(QKV, alpha=0.6, draft=2.6e-3)


def rows(Ks=range(1, 7), candidate=QKV, seed=0, **kwargs):
    return [analyze(simulate(K, candidate=candidate, seed=seed + K, **kwargs), RULES) for K in Ks]


def only(rows_):
    (scheme,) = sweep(rows_).schemes
    return scheme


def truth(side, Ks):
    """K* for a constant acceptance and the cycle time that the simulation has."""
    speed = {K: theory.tau(side.alpha, K) / side.C(K) * (side.T1 + side.overhead) for K in Ks}
    return max(speed | {0: 1.0}, key=lambda K: ({0: 1.0} | speed)[K])


def test_best_K_of_both_sides_is_the_true_one():
    Ks = range(1, 9)
    scheme = only(rows(Ks, WORSE, reference=CHEAP, **EXACT))
    r, c = scheme.best_K("_ref"), scheme.best_K()
    assert truth(CHEAP, Ks) in r.ties and abs(r.K - truth(CHEAP, Ks)) <= 1
    assert truth(WORSE, Ks) in c.ties and c.K < r.K


def test_plain_decoding_can_be_the_best():
    slow = replace(QKV, alpha=0.3, draft=13e-3)
    best = only(rows(candidate=slow)).best_K()
    assert (best.K, best.speedup, best.ties) == (0, 1.0, (0,))


def test_plain_decoding_may_be_the_best_where_no_gain_on_it_is_sure():
    def row(K, value, low, high):
        ends = dict(zip(("speed/speedup", "speed/speedup_lo", "speed/speedup_hi"), (value, low, high)))
        base = rows([K])[0]
        return replace(base, figures=Figures(base.figures.values | ends))

    assert only([row(1, 1.05, 0.9, 1.2), row(2, 0.9, 0.8, 1.0)]).best_K().ties == (0, 1)
    assert only([row(1, 1.2, 1.1, 1.3), row(2, 1.1, 1.0, 1.25)]).best_K().ties == (1, 2)
    assert only([row(1, 0.9, 0.8, 1.0)]).best_K().ties == (0, 1)


def test_drift_between_cells_does_not_move_the_best_K():
    """A machine that is slower for every other K: tok/s zigzags, the gain over plain decoding does not."""

    def slowed(record, factor):
        def slow(arm):
            rounds = [
                replace(
                    r,
                    T={M: factor * t for M, t in r.T.items()},
                    D=factor * r.D,
                    C=factor * r.C,
                    C_ar=factor * r.C_ar,
                )
                for r in arm.rounds
            ]
            return replace(arm, rounds=rounds)

        return replace(record, reference=slow(record.reference), candidate=slow(record.candidate))

    records = [simulate(K, seed=K) for K in range(1, 7)]
    calm = only([analyze(record, RULES) for record in records])
    wild = only([analyze(slowed(record, 1 + record.choices["K"] % 2 * 0.8), RULES) for record in records])
    assert (wild.best_K().K, wild.best_K().ties) == (calm.best_K().K, calm.best_K().ties)
    assert wild.tax_at_own_K().clocked == pytest.approx(calm.tax_at_own_K().clocked)


def test_at_one_K_the_tax_at_own_K_is_the_tax():
    scheme = only(rows(Ks=[3], **EXACT))
    own, row = scheme.tax_at_own_K(), scheme.rows[0]
    assert own.counted == pytest.approx(row["tax/counted"])
    assert own.clocked == pytest.approx(row["tax/clocked"])
    assert own.R == pytest.approx(row["speed/W_spec"])


def test_tuning_K_again_gives_some_of_the_tax_back():
    scheme = only(rows(**EXACT))
    same = scheme.at(scheme.best_K("_ref").K)
    assert scheme.best_K().K < scheme.best_K("_ref").K
    assert scheme.tax_at_own_K().counted < same["tax/counted"]


def test_what_tuning_gives_back_is_what_the_candidate_gains_by_it():
    scheme = only(rows(range(1, 9), WORSE, reference=CHEAP, **EXACT))
    r, c = scheme.best_K("_ref").K, scheme.best_K().K
    same, own = scheme.at(r), scheme.at(c)
    gain = own["speed/speedup"] / same["speed/speedup"] - 1
    its = scheme.tax_at_own_K()
    assert c < r and its.R == pytest.approx(same["speed/W_spec"] * (1 + gain))
    assert its.potential == pytest.approx(same["tax/potential"])
    assert same["tax/clocked"] - its.clocked == pytest.approx(same["speed/W_spec"] * gain / its.potential)


@pytest.mark.parametrize("candidate", [replace(QKV, draft=2e-3, T1=9e-3), replace(QKV, draft=2.6e-3, alpha=0.88)])
def test_where_both_best_K_are_one_tuning_gives_nothing_back(candidate):
    """Whatever the bytes alone would call the best K."""
    for scheme in (only(rows(Ks, candidate, reference=CHEAP, **EXACT)) for Ks in ([2, 3], [1, 2], [4])):
        own, K = scheme.tax_at_own_K(), scheme.best_K().K
        assert scheme.best_K("_ref").K == K > 0
        assert own.counted == pytest.approx(scheme.at(K)["tax/counted"])
        assert own.clocked == pytest.approx(scheme.at(K)["tax/clocked"])


def test_plain_decoding_at_best_has_no_acceptance_to_lose():
    slow = replace(CHEAP, alpha=0.3, draft=13e-3)
    assert only(rows(candidate=slow, reference=slow, **EXACT)).tax_at_own_K() is None
    scheme = only(rows(range(1, 4), replace(slow, ledger=QKV.ledger, T1=QKV.T1), reference=CHEAP, **EXACT))
    own = scheme.tax_at_own_K()  # the candidate alone decodes plainly
    same = scheme.at(scheme.best_K("_ref").K)
    assert scheme.best_K().K == 0 and own.R == pytest.approx(same["speed/W_spec"] / same["speed/speedup"])


def test_one_deep_cell_predicts_the_best_K():
    """Seen at K=8 alone; with that depth's identity the only thing that was measured."""
    deepest = rows([8], WORSE, reference=CHEAP, **EXACT)
    for suffix, side in (("_ref", CHEAP), ("", WORSE)):
        predicted = predicted_K(deepest, suffix)
        speed = [1.0] + [float(theory.tau(side.alpha, K)) / side.C(K) * (side.T1 + side.overhead) for K in range(1, 9)]
        assert predicted.speedups == pytest.approx(speed, rel=0.03)
        assert abs(predicted.refined - np.argmax(speed)) <= 1
        assert np.isnan(predicted.residual)


def test_prediction_is_set_against_the_other_cells():
    measured = rows(range(1, 9), WORSE, reference=CHEAP, **EXACT)
    assert predicted_K(measured).residual < 0.02
    slower = [replace(row, figures=Figures(row.figures.values | {"speed/speedup": 0.8 * row["speed/speedup"]}))
              for row in measured[:-1]]  # fmt: skip
    assert predicted_K([*slower, measured[-1]]).residual == pytest.approx(0.25, abs=0.03)


def test_classic_takes_the_verification_for_free_and_drafts_deeper():
    wide = replace(CHEAP, slope=0.3)
    predicted = predicted_K(rows([8], wide, reference=CHEAP, **EXACT))
    alpha, c = wide.alpha, wide.draft / wide.T1
    assert abs(predicted.classic - theory.optimal_K(alpha, c, 8)) <= 1
    assert predicted.refined < predicted.classic


def test_look_up_that_offers_fewer_drafts_has_its_own_tau():
    """Half of the cycles offer nothing: τ(K) is counted over all of them."""
    record = simulate(4, **EXACT)
    prompts = [replace(p, tokens=list(range(12)), drafted=[4, 0, 4, 0], accepted=[4, 0, 4, 0],
                       committed=[5, 1, 5, 1], capped=False) for p in record.candidate.prompts]  # fmt: skip
    row = analyze(replace(record, candidate=replace(record.candidate, prompts=prompts)), RULES)
    C, plain = QKV.T(3) + 2 * QKV.draft + QKV.overhead, QKV.T1 + QKV.overhead
    assert predicted_K([row]).speedups[2] == pytest.approx(2.0 * plain / C)


def test_a_stale_K_costs_what_the_candidate_loses_at_it():
    scheme = only(rows(range(1, 9), WORSE, reference=CHEAP, **EXACT))
    tuning = scheme.tuning()
    stale, best = (scheme.at(K) for K in (tuning.reference.K, tuning.candidate.K))
    assert tuning.stale.value == pytest.approx(1 - stale["speed/speedup"] / best["speed/speedup"])
    assert tuning.stale.low < tuning.stale.value < tuning.stale.high
    assert tuning.stale_tok_s == pytest.approx(tuning.stale.value * best["speed/tok_s"])
    assert tuning.moved is True


def test_a_K_that_stays_costs_nothing():
    tuning = only(rows(range(1, 4), replace(REFERENCE, draft=2e-3), reference=replace(REFERENCE, draft=2e-3))).tuning()
    assert tuning.reference.K == tuning.candidate.K
    assert (tuning.moved, tuning.stale.value, tuning.stale_tok_s) == (False, 0, 0)


def test_a_K_that_may_have_moved():
    """One arm prefers 1 and the other 2, but neither can be told from the other."""
    def row(K, r, c):
        values = {f"speed/speedup{arm}{end}": s + off for arm, s in (("_ref", r), ("", c))
                  for end, off in (("", 0.0), ("_lo", -0.1), ("_hi", 0.1))}  # fmt: skip
        base = rows([K])[0]
        return replace(base, figures=Figures(base.figures.values | values))

    assert tune([row(1, 1.3, 1.25), row(2, 1.25, 1.3)]).moved is None


def test_where_plain_decoding_is_best_a_stale_K_loses_against_it():
    scheme = only(rows(range(1, 5), replace(QKV, alpha=0.3, draft=13e-3), reference=CHEAP, **EXACT))
    tuning = scheme.tuning()
    assert tuning.candidate.K == 0 < tuning.reference.K
    assert tuning.stale.value == pytest.approx(1 - scheme.at(tuning.reference.K)["speed/speedup"])
    assert tuning.stale_tok_s == pytest.approx(tuning.stale.value * scheme.rows[0]["speed/tok_s_ar"])


def test_nothing_drafts():
    assert tune(rows([0])) is None and predicted_K(rows([0])) is None
