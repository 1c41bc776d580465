import re
from dataclasses import replace

import numpy as np
import pytest

from acctax.analyze import Rules, analyze, sweep
from acctax.analyze.advice import advise, commands
from acctax.analyze.figures import Figures
from acctax.analyze.noise_floor import is_restless
from acctax.analyze.sweep import fastest
from acctax.analyze.verdicts import LOSSES
from acctax.report.summary import notes
from tests.analyze.simulate import QKV, REFERENCE, simulate

RULES = Rules(resamples=300)
EXACT = dict(noise=0, drift=0, spread=0, prompts=300)


def rows(Ks=range(1, 7), candidate=QKV, seed=0, **kwargs):
    return [analyze(simulate(K, candidate=candidate, seed=seed + K, **kwargs), RULES) for K in Ks]


def only(rows_):
    (scheme,) = sweep(rows_).schemes
    return scheme


def test_the_best_configuration_gains_most_over_the_reference_decoding_plainly():
    light = replace(QKV, alpha=0.95, T1=6e-3)
    measured = sweep(rows(Ks=[1, 3]) + rows(Ks=[1, 3], candidate=light, target_quant="nvfp4", **EXACT))
    assert measured.best.choices["target_quant"] == "nvfp4"
    assert measured.best["speed/W_total"] == max(row["speed/W_total"] for row in measured.rows)


def test_no_reference_is_the_best_configuration_beside_a_candidate():
    reference = [analyze(simulate(3, candidate=REFERENCE, is_reference=True), RULES)]
    slow = rows(Ks=[3], candidate=replace(QKV, alpha=0.3))
    assert sweep(reference + slow).best is slow[0]
    assert sweep(reference).best is reference[0]


def test_invalid_cells_take_part_in_no_ranking():
    good = rows(Ks=[1, 2])
    broken = replace(simulate(6), bandwidth=[1.0])
    broken = analyze(replace(broken, candidate=replace(broken.candidate, bytes_ar={})), RULES)
    scheme = only(good + [broken])
    assert broken.verdict == "INVALID" and len(scheme.rows) == 3
    assert scheme.best_K().K != 6 and scheme.at(6) is None and scheme.headline.K != 6


def test_schemes_are_the_choices_without_K():
    reference = [analyze(simulate(K, candidate=REFERENCE, is_reference=True), RULES) for K in (1, 2)]
    other = rows(Ks=[2, 1], target_quant="nvfp4")
    drafter = rows(Ks=[1], drafter_quant="nvfp4_o")
    measured = sweep(other + reference + drafter)
    assert [scheme.label for scheme in measured.schemes] == ["bf16", "nvfp4", "nvfp4_qkv, drafter nvfp4_o"]
    assert [row.K for row in measured.schemes[1].rows] == [1, 2]
    assert measured.shared["target"] == "smollm2_135m" and "K" not in measured.shared


def test_a_label_tells_what_else_differs():
    measured = sweep(rows(Ks=[1]) + rows(Ks=[1], draft_source="self:nvfp4"))
    assert measured.schemes[1].label == "nvfp4_qkv, draft_source self:nvfp4"


def test_nothing_measured():
    with pytest.raises(ValueError, match="nothing to report"):
        sweep([])


def test_commands_that_differ_in_K_alone_are_one():
    again = rows(Ks=[2, 1]) + rows(Ks=[4], target_quant="nvfp4")
    assert commands(again) == ["python -m acctax target_quant=nvfp4_qkv K=1,2 tracking.reuse=false",
                               "python -m acctax target_quant=nvfp4 K=4 tracking.reuse=false"]  # fmt: skip


def test_commands_without_a_K():
    row = replace(rows(Ks=[3])[0], rerun="python -m acctax target_quant=nvfp4")
    assert commands([row]) == ["python -m acctax target_quant=nvfp4"]


def test_advice_follows_the_component():
    row = rows(Ks=[3])[0]
    words = {
        "acceptance": "draft_source.recipe",
        "kernels": "GB/s",
        "verify width": "4 rows",
        "draft and overhead": "cheaper drafter",
    }
    for component, word in words.items():
        figures = Figures(row.figures.values | {LOSSES[component]: 0.5})  # without it there would be a win
        assert word in advise(only([replace(row, component=component, figures=figures)]))


def test_advice_for_a_best_K_that_moved():
    quick = replace(QKV, T1=8e-3, draft=5e-3)  # taxed, and faster than the reference all the same
    scheme = only(rows(candidate=quick, **EXACT))
    assert scheme.headline.verdict == "REJECT" and scheme.headline["speed/W_spec"] > 1
    assert "re-tune K" in advise(scheme) and "quantize nothing" not in advise(scheme)


def test_a_win_at_a_K_that_does_not_pay_is_not_shipped():
    """W_spec is far above 1, at the one K that was measured: plain decoding is faster all the same."""
    quick = replace(QKV, alpha=0.3, T1=6e-3, draft=6e-3)
    scheme = only(rows(Ks=[3], candidate=quick, reference=replace(REFERENCE, alpha=0.3, draft=13e-3), **EXACT))
    assert scheme.headline.verdict == "ACCEPT" and scheme.headline["speed/speedup"] < 1
    assert "decode plainly" in advise(scheme) and "ship" not in advise(scheme)
    assert advise(only(rows(Ks=[0], candidate=quick, **EXACT))) == "ship it"


def test_a_K_that_was_not_measured_and_is_predicted_to_gain_is_measured_first():
    """At K=6 it loses on plain decoding, at 2 it would win."""
    side = replace(QKV, alpha=0.7, draft=2.5e-3, slope=0.25)
    scheme = only(rows(Ks=[6], candidate=side, reference=replace(REFERENCE, alpha=0.6, draft=4e-3, slope=0.3), **EXACT))
    assert scheme.best_K().K == 0
    said = advise(scheme)
    assert "decode plainly" in said and re.search(r"measure K=[12], .* K=[12] is predicted to reach 1\.\d\d", said)


def test_a_win_that_is_none_is_left_alone():
    """The reference at its own K beats the candidate in every way it can run."""
    lost = only(rows(Ks=[3], candidate=replace(REFERENCE, alpha=0.6), **EXACT))
    assert lost.headline.verdict == "REJECT"
    times = 1 / lost.headline["speed/W_spec"]
    assert advise(lost).endswith(f"quantize nothing: at K=3 the reference is {times:.2f} times as fast")


def test_no_lever_is_offered_that_wins_nothing_even_at_best():
    row = rows(Ks=[3])[0]
    values = row.figures.values | {"speed/W_spec": 0.8}
    for loss, offered in ((0.1, False), (0.4, True)):
        figures = Figures(values | {LOSSES[row.component]: loss})
        assert ("would be" in advise(only([replace(row, figures=figures)]))) == offered


def test_more_rounds_are_no_answer_where_plain_decoding_is_clearly_faster():
    undecided = replace(rows(Ks=[3], candidate=replace(QKV, alpha=0.3, draft=13e-3))[0], verdict="UNDECIDED",
                        remedy="about 36 rounds (12 now) would decide: measure.rounds=36")  # fmt: skip
    assert "decode plainly" in advise(only([undecided])) and "36 rounds" in advise(only([undecided]))
    assert "plainly" not in advise(only([replace(rows(Ks=[3])[0], verdict="UNDECIDED", remedy="more")]))


def test_given_acceptance_ships_nothing():
    light = replace(REFERENCE, T1=6e-3, draft=3e-3, ledger=QKV.ledger)
    for source, ships in (("synthetic:0.9", False), ("self:int8_all", True)):
        scheme = only(rows(Ks=[3], candidate=light, draft_source=source, **EXACT))
        assert scheme.headline.verdict == "ACCEPT" and ("ship" in advise(scheme)) == ships


def test_figures_that_were_never_published_advise_nothing():
    row = rows(Ks=[3])[0]
    unknown = replace(row, figures=Figures(row.figures.values | {"speed/speedup": np.nan, "speed/speedup_ref": np.nan}))
    assert only([unknown]).best_K() is None and "nan" not in advise(only([unknown]))


def test_advice_for_speculation_that_never_pays():
    slow = dict(alpha=0.3, draft=13e-3)
    neither = rows(candidate=replace(QKV, **slow), reference=replace(REFERENCE, **slow))
    assert "decode plainly" in advise(only(neither))
    assert "decode plainly" not in advise(only(rows(candidate=replace(QKV, **slow))))  # the reference drafts well


def test_plain_decoding_is_advised_by_what_speculation_reaches():
    slow = dict(alpha=0.3, draft=13e-3)
    scheme = only(rows(Ks=[0, 2, 4], candidate=replace(QKV, **slow), reference=replace(REFERENCE, **slow), **EXACT))
    assert scheme.headline.K == 0 and "at K=2 speculation reaches 0." in advise(scheme)


def test_an_invalid_clock_is_measured_again_anything_else_mended():
    row = rows(Ks=[3])[0]
    for reason, said in (("the clock was disturbed: W_AR …", "measure it again on a quieter"), ("no …", "mend")):
        assert advise(only([replace(row, verdict="INVALID", reason=reason)])).startswith(said)


def test_the_fastest_candidate_is_a_valid_one_and_drift_chooses_none():
    slow, quick = (analyze(simulate(candidate=replace(QKV, T1=T1), drift=drift), RULES)
                   for T1, drift in ((11e-3, 0), (10e-3, 0.3)))  # fmt: skip
    reference = analyze(simulate(candidate=replace(REFERENCE, T1=5e-3), is_reference=True), RULES)
    broken = replace(quick, verdict="INVALID")
    assert fastest([reference, broken, slow, quick]) is quick
    assert fastest([reference, broken]) is None


def reference_cell(*missed):
    """An A/A cell whose intervals of the named ratios miss 1."""
    row = analyze(simulate(3, candidate=REFERENCE, is_reference=True), RULES)
    ends = {f"speed/{ratio}{end}": value for ratio in ("W_AR", "W_spec")
            for end, value in (("", 0.92), ("_lo", 0.87), ("_hi", 0.97 if ratio in missed else 1.02))}  # fmt: skip
    return replace(row, figures=Figures(row.figures.values | ends))


def test_a_noise_floor_that_misses_1_is_told_loudly():
    for missed, restless in ((("W_AR", "W_spec"), True), (("W_AR",), False), ((), False)):
        row = reference_cell(*missed)
        [_, *_] = said = notes(sweep([row]))
        assert is_restless([row]) == restless == said[0].startswith("WARNING")
        assert ("quieter machine" in advise(only([row]))) == restless


def test_one_interval_in_twenty_may_miss():
    quiet = [reference_cell() for _ in range(19)]
    assert not is_restless([*quiet, reference_cell("W_AR")]) and not is_restless(rows(Ks=[1]))
    assert is_restless([*quiet, *(reference_cell("W_AR", "W_spec") for _ in range(3))])


def test_a_clock_that_was_not_alone_is_told_beside_the_verdict():
    record = simulate(3)
    beside = replace(record, environment=record.environment | {"rivals": "4711"})
    assert "(WARNING: process 4711 measured on this machine too" in analyze(beside, RULES).reason
    assert "WARNING" not in analyze(record, RULES).reason
