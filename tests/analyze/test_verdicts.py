import math
from dataclasses import replace

import pytest

from acctax.analyze import Rules, analyze
from acctax.analyze.figures import Figures
from acctax.analyze.verdicts import LOSSES, decide
from tests.analyze.simulate import LEDGER, NVFP4, QKV, REFERENCE, simulate

RULES = Rules()
LOST = (0.9, 0.85, 0.95)  # a W_spec
BODY = replace(REFERENCE, alpha=0.95, T1=6e-3, draft=3e-3,
               ledger={name: size * NVFP4 for name, size in LEDGER.items()})  # fmt: skip


def figures(W_spec=(1.2, 1.15, 1.25), tax=(0.2, 0.1, 0.3), clocked=(0.2, 0.0, 0.4), potential=0.25,
            A=(0.95, 0.93, 0.97), texts=(1.2, 1.15, 1.25), W_bytes=1.3, **losses):  # fmt: skip
    """A loss is a value, or the value and the ends of its interval."""
    values = {"tax/potential": potential, "bytes/W": W_bytes}
    for name, ends in {
        "speed/W_spec": W_spec,
        "speed/W_end_to_end": texts,
        "tax/counted": tax,
        "tax/clocked": clocked,
        "accept/tau_ratio": A,
    }.items():
        values |= dict(zip((name, f"{name}_lo", f"{name}_hi"), ends))
    for name, figure in LOSSES.items():
        loss = losses.get(name.replace(" ", "_"), 0.01)
        values |= dict(zip((figure, f"{figure}_lo", f"{figure}_hi"), loss if isinstance(loss, tuple) else (loss,)))
    return Figures(values)


def verdict(rules=RULES, prompts=24, rounds=6, **kwargs):
    return decide(figures(**kwargs), rules, prompts, rounds)


def test_a_real_win_at_a_low_tax_is_accepted():
    assert verdict().name == "ACCEPT"


def test_a_bonus_is_called_one():
    assert "bonus 20 % [10, 30]" in verdict(tax=(-0.2, -0.3, -0.1), A=(1.05, 1.03, 1.07)).reason


def test_a_tax_above_the_threshold_is_rejected_though_there_is_a_win():
    v = verdict(tax=(0.84, 0.71, 0.97), kernels=0.5)
    assert (v.name, v.component) == ("REJECT", "acceptance")
    assert "84 % [71, 97]" in v.reason


@pytest.mark.parametrize("component", LOSSES)
def test_without_a_win_the_largest_loss_is_named(component):
    v = verdict(W_spec=LOST, texts=LOST, **{component.replace(" ", "_"): 0.4})
    assert (v.name, v.component) == ("REJECT", component)
    assert "no win: W_spec 0.900" in v.reason


def test_no_win_even_at_equal_acceptance():
    v = verdict(W_spec=LOST, texts=LOST, potential=-0.05, kernels=0.3)
    assert "no win even at equal acceptance" in v.reason


def test_a_clock_that_sees_less_than_the_count_is_told():
    v = verdict(tax=(1.5, 1.3, 1.7), W_spec=LOST, texts=LOST, clocked=(0.6, 0.4, 0.8), acceptance=0.2)
    assert "the clock sees less" in v.reason


def test_a_tax_across_the_threshold_wants_prompts():
    v = verdict(tax=(0.375, 0.125, 0.625))
    assert v.name == "UNDECIDED"
    # twice the distance takes four times the prompts
    assert v.remedy == "about 96 prompts (24 now) would decide: measure.prompts=96"


def test_a_win_across_the_floor_wants_what_is_widest():
    by_clock = verdict(W_spec=(1.125, 0.875, 1.375), A=(0.99, 0.98, 1.0))
    assert by_clock.remedy == "about 24 rounds (6 now) would decide: measure.rounds=24"
    by_count = verdict(W_spec=(1.125, 0.875, 1.375), A=(1.0, 0.8, 1.2))
    assert by_count.remedy == "about 96 prompts (24 now) would decide: measure.prompts=96"


def test_too_close_to_call():
    assert "too close" in verdict(W_spec=(1.001, 0.95, 1.05)).remedy


def test_a_margin_moves_the_floor():
    assert verdict(rules=Rules(margin=0.1)).name == "ACCEPT"
    assert verdict(rules=Rules(margin=0.2)).name == "UNDECIDED"
    assert verdict(rules=Rules(margin=0.3)).name == "REJECT"


def test_a_threshold_moves_the_tax():
    assert verdict(rules=Rules(tax_threshold=0.25)).name == "UNDECIDED"
    assert verdict(rules=Rules(tax_threshold=0.05)).name == "REJECT"


def test_without_a_byte_win_the_clock_decides_alone():
    none = (math.nan,) * 3
    assert verdict(tax=none).name == "ACCEPT"
    assert verdict(tax=none, W_spec=LOST, texts=LOST).name == "REJECT"
    assert verdict(tax=none, W_spec=(1.0, 0.9, 1.1)).name == "UNDECIDED"


def test_simulated_quantizations_get_the_verdict_they_deserve():
    rules = Rules(resamples=500)
    taxed = analyze(simulate(K=3, candidate=QKV), rules)
    assert (taxed.verdict, taxed.component) == ("REJECT", "acceptance")
    assert analyze(simulate(K=3, candidate=BODY), rules).verdict == "ACCEPT"
    slow = replace(BODY, alpha=0.97, T1=14e-3, draft=6.5e-3)  # fewer bytes, no fewer seconds
    lost = analyze(simulate(K=3, candidate=slow), rules)
    assert (lost.verdict, lost.component) == ("REJECT", "kernels")
    wide = replace(BODY, alpha=0.97, T1=5e-3, slope=1.5, draft=6.5e-3)
    lost = analyze(simulate(K=3, candidate=wide), rules)
    assert (lost.verdict, lost.component) == ("REJECT", "verify width")
    gains = analyze(
        simulate(K=3, reference=replace(REFERENCE, alpha=0.76), candidate=replace(BODY, alpha=0.95)), rules
    )
    assert gains.verdict == "ACCEPT" and gains["accept/tau_ratio"] > 1 and "bonus" in gains.reason


def test_a_loss_within_its_noise_ate_nothing():
    wild, sure = (0.4, -0.1, 0.9), (0.1, 0.05, 0.15)
    v = verdict(W_spec=LOST, texts=LOST, kernels=wild, draft_and_overhead=sure)
    assert v.component == "draft and overhead" and "noise" not in v.reason
    v = verdict(W_spec=LOST, texts=LOST, kernels=wild)
    assert v.component == "kernels" and "no loss alone is beyond its noise" in v.reason


def test_a_target_that_is_as_it_was_has_kernels_that_are_as_they_were():
    wild = dict(kernels=(0.4, 0.3, 0.5), verify_width=(0.3, 0.2, 0.4), draft_and_overhead=(0.1, -0.1, 0.3))
    assert verdict(W_spec=LOST, texts=LOST, W_bytes=1.0, **wild).component == "draft and overhead"
    assert verdict(W_spec=LOST, texts=LOST, **wild).component == "kernels"


@pytest.mark.parametrize("win, texts", [((1.4, 1.1, 1.8), (0.95, 0.9, 0.99)), (LOST, (1.1, 1.05, 1.15))])
def test_a_clock_that_whole_texts_contradict_decides_nothing(win, texts):
    v = verdict(W_spec=win, texts=texts)
    assert v.name == "UNDECIDED" and "contradict each other" in v.reason and v.wanted == {"rounds"}
    assert v.remedy == "more rounds while nothing else runs: measure.rounds=12"
    taxed = verdict(W_spec=win, texts=texts, tax=(0.9, 0.8, 1.0))  # counted: no clock is in it
    assert (taxed.name, taxed.component) == ("REJECT", "acceptance") and "no win" not in taxed.reason


def test_whole_texts_that_agree_or_cannot_tell_leave_the_clock_its_word():
    assert verdict(texts=(1.0, 0.9, 1.1)).name == "ACCEPT"
    assert verdict(texts=(math.nan,) * 3).name == "ACCEPT"
    wins = simulate(candidate=BODY)
    slow = [replace(prompt, seconds=1.2 * prompt.seconds) for prompt in wins.candidate.prompts]
    row = analyze(replace(wins, candidate=replace(wins.candidate, prompts=slow)), Rules(resamples=300))
    assert row["speed/W_end_to_end"] == pytest.approx(row["speed/W_spec"] / 1.2, rel=0.02) and row.verdict == "ACCEPT"


@pytest.mark.parametrize("units, said", [
    (dict(prompts=1), "1 prompt: too few"), (dict(rounds=3), "3 rounds: too few"),
    (dict(prompts=3, rounds=1), "3 prompts and 1 round: too few"),
])  # fmt: skip
def test_too_few_have_no_interval(units, said):
    v = verdict(**units)
    assert v.name == "UNDECIDED" and v.reason.startswith(said) and v.wanted == {f"{unit}" for unit in units}
    assert v.remedy == "4 at least: " + " ".join(f"measure.{unit}=4" for unit in units)


def test_of_more_prompts_as_many_loop():
    """measure.prompts counts those that are decoded, intervals those that do not loop."""
    few = decide(figures(), RULES, 1, 6, looped=3)
    assert few.remedy == "4 at least, beside those that loop: measure.prompts=16"
    wide = decide(figures(tax=(0.375, 0.125, 0.625)), RULES, 24, 6, looped=6)
    assert wide.remedy == "about 120 prompts (30 now) would decide: measure.prompts=120"


def test_one_number_of_a_unit_decides_both():
    v = verdict(tax=(0.375, 0.125, 0.625), W_spec=(1.125, 0.875, 1.375), A=(1.0, 0.8, 1.2))
    assert v.remedy == "about 96 prompts (24 now) would decide: measure.prompts=96"
    v = verdict(tax=(0.375, 0.125, 0.625), W_spec=(1.125, 0.875, 1.375), A=(0.99, 0.98, 1.0))
    assert v.remedy.startswith("about 96 prompts (24 now) and 24 rounds (6 now) would decide: ")
    assert v.remedy.endswith(": measure.prompts=96 measure.rounds=24")
    v = verdict(tax=(0.375, 0.125, 0.625), W_spec=(1.001, 0.9, 1.1), A=(0.99, 0.98, 1.0))
    assert v.remedy == "too close to call: even 100 times the rounds may not decide"


def test_an_undecided_verdict_names_the_units_it_is_short_of():
    wide = (1.02, 0.9, 1.15)
    assert verdict(tax=(0.5, 0.3, 0.7)).wanted == {"prompts"}
    assert verdict(W_spec=wide).wanted == {"rounds"}  # the clock is what is wide
    assert verdict(W_spec=wide, A=(0.95, 0.85, 1.06)).wanted == {"prompts"}
    assert verdict(W_spec=wide, tax=(0.5, 0.3, 0.7)).wanted == {"prompts", "rounds"}
    assert verdict(prompts=1).wanted == {"prompts"} and verdict(rounds=1).wanted == {"rounds"}
    assert verdict().wanted == verdict(tax=(0.9, 0.8, 1.0)).wanted == frozenset()


def test_stopping_at_a_look_errs_no_more_often():
    """The true tax is the threshold itself, the win is plain: whatever is decided is wrong on one side, 2.5 % each."""
    threshold = analyze(simulate(prompts=3000, rounds=2, candidate=BODY), Rules(resamples=100))["tax/counted"]
    rules = Rules(tax_threshold=threshold, resamples=300)

    def decided(record, looks):
        for n in (15, 30, 60):
            arms = {name: replace(getattr(record, name), prompts=getattr(record, name).prompts[:n])
                    for name in ("reference", "candidate")}  # fmt: skip
            name = analyze(replace(record, looks=looks, **arms), rules).verdict
            if name != "UNDECIDED":
                return name
        return None

    for looks, least, most in ((3, 0, 0.05), (1, 0.05, 0.2)):
        ends = [decided(simulate(prompts=60, candidate=BODY, seed=seed), looks) for seed in range(200)]
        wrong = sum(end is not None for end in ends)
        assert least * len(ends) <= wrong <= most * len(ends), (looks, wrong)


def test_what_ended_the_measurement_stands_in_the_reason():
    row = analyze(replace(simulate(), stopped_because="decided at look 1 of 3"), Rules(resamples=200))
    assert row.reason.endswith(" (decided at look 1 of 3)")
    short = replace(simulate(prompts=8, candidate=BODY), stopped_because="measure.budget.prompts=8 spent")
    row = analyze(short, Rules(tax_threshold=analyze(short)["tax/counted"] + 0.15))
    assert "would decide: measure.budget.prompts=" in row.remedy
