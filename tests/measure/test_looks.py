"""Looks are few and fixed, what is short grows, and the record says what ended it."""

from dataclasses import replace

import pytest

from acctax.config import Budget, Measure
from acctax.measure import job as jobs
from acctax.measure.job import measure
from acctax.measure.looks import schedule
from acctax.progress import Progress

AUTO = ["target=random_llama", "decoding=sample", "K=1", "measure=auto", "measure.prompts=2", "measure.rounds=1",
        "measure.max_new_tokens=6", "measure.cycles=1", "measure.budget.prompts=7",
        "measure.budget.rounds=4"]  # fmt: skip
SET = Measure("auto", 15, 48, 6, 4, 2000, levers=False, budget=Budget(60, 24, 600.0))


def test_each_look_is_at_twice_as_much():
    assert schedule(SET, 60) == [{"prompts": p, "rounds": r} for p, r in ((15, 6), (30, 12), (60, 24))]
    assert schedule(SET, 40)[-1] == {"prompts": 40, "rounds": 24}  # no more than there are
    assert schedule(replace(SET, budget=Budget(15, 40, 1.0)), 60) == [
        {"prompts": 15, "rounds": r} for r in (6, 12, 24, 40)]
    assert schedule(replace(SET, budget=None), 60) == [{"prompts": 15, "rounds": 6}]


@pytest.fixture
def auto(compose):
    """auto(what is wanted at each look, …) → the record, and (prompts, rounds) as they were at each look."""

    def run(*answers, overrides=()):
        seen = []

        def wanted(record):
            seen.append((len(record.reference.prompts), len(record.candidate.rounds)))
            return answers[len(seen) - 1]

        return measure(compose(*AUTO, *overrides), Progress.silent(), wanted), seen

    return run


def test_only_what_is_wanted_grows(auto):
    record, seen = auto({"prompts"}, {"rounds"}, ())
    assert seen == [(2, 1), (4, 1), (4, 4)] and record.looks == 3
    assert record.stopped_because == "decided at look 3 of 3, 4 prompts and 4 rounds"
    assert len(record.bandwidth) == 4 and len(record.same_context) == 4


def test_the_budget_ends_it(auto):
    record, seen = auto({"prompts", "rounds"}, {"prompts", "rounds"}, {"prompts"})
    assert seen == [(2, 1), (4, 2), (7, 4)]
    assert record.stopped_because == "measure.budget.prompts=7 spent, 7 prompts and 4 rounds"


def test_time_ends_it(auto):
    record, seen = auto({"prompts"}, overrides=["measure.budget.seconds=1e-6"])
    assert len(seen) == 1 and record.stopped_because.startswith("measure.budget.seconds=1e-06 spent, 2 prompts")


def test_what_grew_is_what_would_have_been_measured_at_once(auto, compose):
    def counted(record):
        return [replace(prompt, seconds=0.0) for prompt in record.candidate.prompts]

    grown, _ = auto({"prompts"}, {"prompts"}, ())
    at_once = measure(compose(*AUTO, "measure.prompts=7", "measure.budget=null"), Progress.silent())
    assert counted(grown) == counted(at_once) and grown.same_context == at_once.same_context
    assert at_once.looks == 1 and at_once.stopped_because == ""


def test_without_a_budget_nobody_asks(compose):
    def wanted(record):
        raise AssertionError

    measure(compose(*AUTO, "measure.budget=null"), Progress.silent(), wanted)


def test_room_is_made_for_the_longest_prompt_that_may_come(compose):
    cell = compose(*AUTO, "measure.budget.prompts=60")
    checkpoint = jobs.open_checkpoint(cell.target)
    assert len(jobs.prompts_of(cell, checkpoint)) == 60
