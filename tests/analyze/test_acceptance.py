import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from acctax import theory
from acctax.analyze.acceptance import Acceptance, pair
from acctax.analyze.intervals import resample
from acctax.record import PromptRecord
from tests.analyze.simulate import QKV, simulate

PUBLIC = Path(__file__).parents[1] / "fixtures" / "public_sweeps.json"
CASES = json.loads(PUBLIC.read_text())["accepted_length"]


def prompt(drafted, accepted, committed=None, capped=False):
    committed = [a + 1 for a in accepted] if committed is None else committed
    return PromptRecord(
        "p", "code", 8, list(range(sum(committed))), drafted, accepted, committed, capped, False, 1.0
    )


def measured(prompts):
    """Weights of the sample alone."""
    return resample(len(prompts), 0, np.random.default_rng(0))


def tau(*prompts, K):
    return Acceptance.of(prompts, K).tau(measured(prompts))[0]


def rates(kind, *prompts, K):
    return [draws[0] for draws in getattr(Acceptance.of(prompts, K), kind)(measured(prompts))]


def test_matches_after_the_first_miss_do_not_count():
    pattern, expect = CASES["match_pattern"], CASES["expect"]
    K, accepted = len(pattern), pattern.index(0)
    assert accepted == expect["accepted"]
    cycle = prompt([K], [accepted])
    assert Acceptance.of([cycle], K).draft_rate() == expect["draft_acceptance_rate"]
    assert tau(cycle, K=K) == pytest.approx(expect["tau"])


def test_what_lies_behind_a_stop_token_is_accepted_but_not_committed():
    case = CASES["eos_in_draft"]
    K, expect = case["K"], case["expect"]
    cycle = prompt([K], [expect["raw_accepted"]], [case["drafts"].index("EOS") + 1])
    assert Acceptance.of([cycle], K).histogram[K] == 1
    assert tau(cycle, K=K) == pytest.approx(expect["committed"])


def test_a_cycle_without_a_draft_is_a_cycle():
    case = CASES["ngram_empty_drafts"]
    cycles = prompt(case["draft_lens"], case["accepted"])
    acceptance = Acceptance.of([cycles], 4)
    assert tau(cycles, K=4) == pytest.approx(case["expect_tau"])
    assert acceptance.draft_rate() == 6 / 8
    assert rates("unconditional", cycles, K=4) == [1, 1, 0.5, 0.5]  # of the two cycles that offered a draft


def test_conditional_acceptance_from_the_histogram():
    case = CASES["histogram"]
    lengths = [int(length) for length, count in case["lengths"].items() for _ in range(count)]
    cycles = prompt([3] * 10, lengths)
    assert Acceptance.of([cycles], 3).histogram.tolist() == [0, 5, 0, 5]
    expect = case["expect_conditional"]
    assert rates("conditional", cycles, K=3) == [1, expect["2|1"], expect["3|2"]]
    assert rates("unconditional", cycles, K=3) == [1, 0.5, 0.5]


def test_short_drafts_fully_accepted_are_no_misses():
    assert rates("unconditional", prompt([1, 3], [1, 3]), K=3) == [1, 1, 1]


def test_tau_is_the_micro_average():
    case = CASES["aggregate"]
    arms = []
    for name in "AB":
        tokens, cycles = case[name]["tokens"], case[name]["cycles"]
        accepted = tokens // cycles - 1
        arms.append(prompt([4] * cycles, [accepted] * cycles))
    assert tau(*arms, K=4) == pytest.approx(case["expect"]["micro_tau"], abs=5e-3)


def test_a_last_cycle_cut_by_the_limit_counts_whole():
    cut, whole = prompt([3, 3, 3], [1, 2, 3], [2, 3, 1], capped=True), prompt([3, 3, 3], [1, 2, 3])
    assert tau(cut, K=3) == tau(whole, K=3) == pytest.approx(3)
    assert Acceptance.of([cut], 3).histogram.tolist() == [0, 1, 1, 1]


@pytest.mark.parametrize("K", [2, 8])
def test_the_limit_does_not_bias_tau(K):
    """Texts of 24 tokens: a long cycle meets the limit more often than a short one."""
    record = simulate(K, candidate=replace(QKV, alpha=0.6), prompts=20_000, tokens=24, spread=0)
    measured = tau(*record.candidate.prompts, K=K)
    assert measured == pytest.approx(theory.tau(0.6, K), rel=5e-3)


def test_a_last_cycle_cut_by_a_stop_token_stays():
    assert tau(prompt([3, 3], [1, 3], [2, 2]), K=3) == pytest.approx(2)


def test_nothing_drafted():
    plain = prompt([0] * 5, [0] * 5)
    acceptance = Acceptance.of([plain], 0)
    assert tau(plain, K=0) == 1
    assert np.isnan(acceptance.draft_rate())
    assert acceptance.conditional(measured([plain])) == []


def test_prompts_whose_reference_loops_leave_both_arms():
    record = simulate(prompts=5)
    arm = record.reference
    looped = [replace(p, looped=i in (1, 3)) for i, p in enumerate(arm.prompts)]
    kept = pair(replace(record, reference=replace(arm, prompts=looped)))
    assert [(r.prompt_id, c.prompt_id) for r, c in kept] == [("p0", "p0"), ("p2", "p2"), ("p4", "p4")]


def test_both_arms_see_the_same_resamples():
    record = simulate(prompts=30)
    weights = resample(30, 200, np.random.default_rng(1))
    r, c = (Acceptance.of(arm.prompts, 3).tau(weights) for arm in (record.reference, record.candidate))
    assert np.std(np.log(c / r)) < np.std(np.log(c / np.roll(r, 1)))  # than if each had resamples of its own


def test_rates_by_position_pair_by_prompt_as_tau_does():
    record = simulate(prompts=30, spread=1.5)
    weights = resample(30, 300, np.random.default_rng(1))
    r, c = (Acceptance.of(arm.prompts, 3).conditional(weights)[0][1:] for arm in (record.reference, record.candidate))
    assert np.std(c - r) < np.std(c - np.roll(r, 1))


def test_a_rate_never_leaves_0_to_1_and_of_one_prompt_has_no_interval():
    record = simulate(prompts=4, spread=3)
    weights = resample(4, 200, np.random.default_rng(0))
    rates = np.array(Acceptance.of(record.candidate.prompts, 3).conditional(weights))
    assert np.all((0 <= rates) & (rates <= 1))
    [alone] = Acceptance.of([prompt([1, 1], [0, 1])], 1).conditional(resample(1, 5, np.random.default_rng(0)))
    assert alone[0] == 0.5 and np.isnan(alone[1:]).all()
