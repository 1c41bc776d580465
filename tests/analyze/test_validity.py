"""Every INVALID reason, tripped; the record they are made from trips none."""

import re
from dataclasses import replace

import pytest

from acctax.analyze import Rules, analyze
from acctax.analyze.figures import Figures
from acctax.analyze.validity import meaningless
from acctax.record import Lossless, Record, Round
from tests.analyze.simulate import QKV, REFERENCE, simulate

RULES = Rules(resamples=200)
RECORD = simulate()


def with_prompt(record: Record, arm: str = "candidate", i: int = 0, **changes) -> Record:
    side = getattr(record, arm)
    prompts = list(side.prompts)
    prompts[i] = replace(prompts[i], **changes)
    return replace(record, **{arm: replace(side, prompts=prompts)})


def with_loops(record: Record, arm: str, n: int) -> Record:
    for i in range(n):
        record = with_prompt(record, arm, i, looped=True)
    return record


def with_rounds(record: Record, rounds: list[Round]) -> Record:
    return replace(record, candidate=replace(record.candidate, rounds=rounds))


def with_seconds(record: Record, *arms: str, factor: float) -> Record:
    for arm in arms:
        for i, prompt in enumerate(getattr(record, arm).prompts):
            record = with_prompt(record, arm, i, seconds=factor * prompt.seconds)
    return record


def cycle(drafted: int, accepted: int, committed: int) -> dict:
    return dict(drafted=[drafted], accepted=[accepted], committed=[committed], tokens=list(range(committed)))


ROUND = RECORD.candidate.rounds[0]
BROKEN = {
    "different prompts": with_prompt(RECORD, prompt_id="other"),
    "rounds do not pair": with_rounds(RECORD, RECORD.candidate.rounds[:-1]),
    "differ in length": with_prompt(RECORD, drafted=[3]),
    "accepted more than it drafted": with_prompt(RECORD, **cycle(2, 3, 3)),
    "drafted more than K=3": with_prompt(RECORD, **cycle(4, 2, 3)),
    "committed more than its accepted drafts": with_prompt(RECORD, **cycle(3, 2, 4)),
    "Σ committed": with_prompt(RECORD, tokens=[1, 2, 3]),
    "took no time": with_seconds(RECORD, "candidate", factor=0),
    "a time is missing": with_rounds(RECORD, [replace(ROUND, T={1: 0.01})] * 6),
    "not positive": with_rounds(RECORD, [replace(ROUND, C=0.0)] * 6),
    "ledger is empty": replace(RECORD, candidate=replace(RECORD.candidate, bytes_ar={})),
    "loops in every one": with_loops(RECORD, "reference", len(RECORD.reference.prompts)),
    "broken at reference precision": simulate(reference=replace(REFERENCE, alpha=0.03)),
    "at chance": simulate(candidate=replace(QKV, alpha=0.001)),
    "candidate's text loops in 5": with_loops(RECORD, "candidate", 5),
    "end-to-end tok/s over τ/C": with_seconds(RECORD, "reference", "candidate", factor=3),
    "departs from plain decoding at token 7": replace(
        RECORD, losslessness=[Lossless("reference", "p0", 48), Lossless("candidate", "p3", 8, 7, 0.25)]),
    "end-to-end W_spec over": with_seconds(RECORD, "candidate", factor=1.5),
    "the clock was disturbed: W_AR may be anything": with_rounds(RECORD, [
        replace(its, T={rows: factor * T for rows, T in its.T.items()})
        for its, factor in zip(RECORD.candidate.rounds, (0.1, 8, 0.2, 1, 4, 1))]),
}


@pytest.mark.parametrize("reason", BROKEN)
def test_invalid(reason):
    row = analyze(BROKEN[reason], RULES)
    assert row.verdict == "INVALID"
    assert reason in row.reason


def test_the_reference_can_be_broken_too():
    row = analyze(with_prompt(RECORD, "reference", **cycle(2, 3, 3)), RULES)
    assert row.verdict == "INVALID" and row.reason.startswith("reference, prompt p0")


@pytest.mark.parametrize("figure, value, reason", [
    ("accept/tau", 4.2, "candidate: τ is 4.200, outside 1 to K\\+1 = 4"),
    ("accept/tau_ref", 0.9, "reference: τ is 0.900"),
    ("speed/tok_s_ref", 100.0, "reference: tok/s is 100.000, τ/C is"),
    ("tax/ln_kernels", 0.5, "the losses sum to .*, ln W_bytes − ln W_spec is"),
])  # fmt: skip
def test_an_identity_of_the_figures_that_does_not_hold(figure, value, reason):
    figures = analyze(RECORD, RULES).figures
    assert meaningless(RECORD, figures) is None
    assert re.match(reason, meaningless(RECORD, Figures(figures.values | {figure: value})))


def test_no_whole_cycle():
    record = RECORD
    for i in range(len(record.candidate.prompts)):
        record = with_prompt(record, "candidate", i, capped=True, **cycle(3, 3, 1))
    assert "no whole cycle" in analyze(record, RULES).reason


@pytest.mark.parametrize("record", [
    RECORD,
    with_loops(RECORD, "candidate", 4),  # by chance, as likely as not
    with_loops(with_loops(RECORD, "candidate", 8), "reference", 8),  # the same prompts loop
    with_seconds(RECORD, "candidate", factor=1.1),
    with_seconds(RECORD, "reference", "candidate", factor=1.6),  # the machine was slower then
    simulate(reference=replace(REFERENCE, alpha=0.3), candidate=replace(QKV, alpha=0.25)),
    simulate(3, replace(REFERENCE, alpha=0.03), replace(QKV, alpha=0.01), draft_source="ngram:1-3:latest"),
    simulate(3, replace(REFERENCE, alpha=0.03), replace(QKV, alpha=0.001), draft_source="synthetic:0.03"),
    replace(with_loops(RECORD, "candidate", 8), choices=RECORD.choices | {"draft_source": "synthetic:0.9"}),
    replace(RECORD, losslessness=[Lossless("reference", "p0", 48), Lossless("candidate", "p0", 48)]),
    with_prompt(RECORD, **cycle(3, 3, 2)),  # cut by a stop token
])  # fmt: skip
def test_valid(record):
    assert analyze(record, RULES).verdict != "INVALID"


def test_an_invalid_row_has_a_reason_even_without_figures():
    row = analyze(BROKEN["rounds do not pair"], RULES)
    assert row.metrics() == {}
