"""When a measurement means nothing: the first identity or sanity rule that a record breaks, in words."""

import math
from collections.abc import Iterator

from scipy import stats

from acctax.analyze.figures import Figures
from acctax.analyze.verdicts import LOSSES
from acctax.record import Arm, Lossless, PromptRecord, Record, Round

CHANCE = 0.02  # first drafts accepted less often than this come from a drafter that was not loaded
ANCHOR = 0.10  # a drafter that the reference itself accepts less often cannot measure a quantization
AGREEMENT = 2.0  # end-to-end tok/s against τ/C: other minutes, so a shared machine's drift is in it
PAIRED = 1.25  # the same, candidate over reference: they took turns, so that drift cancels
STEADY = 2.0  # a paired plain pass that may be anywhere within a wider range was clocked on a machine at work
SIGNIFICANT = 0.05
DISTURBED = "the clock was disturbed"
EXACT = 1e-9  # identities of arithmetic


def broken_identity(record: Record) -> str | None:
    """What must hold by construction, or nothing else can be computed. None where all of it does."""
    return next(_broken(record), None)


def _broken(record: Record) -> Iterator[str]:
    r, c, K = record.reference, record.candidate, int(record.choices["K"])
    if [p.prompt_id for p in r.prompts] != [p.prompt_id for p in c.prompts]:
        yield "reference and candidate decoded different prompts"
    if len(r.rounds) != len(c.rounds) or not r.rounds:
        yield f"rounds do not pair: {len(r.rounds)} of the reference, {len(c.rounds)} of the candidate"
    for name, arm in (("reference", r), ("candidate", c)):
        for prompt in arm.prompts:
            for reason in _broken_prompt(prompt, K):
                yield f"{name}, prompt {prompt.prompt_id}: {reason}"
        for i, round_ in enumerate(arm.rounds):
            if not _clocked(round_, K):
                yield f"{name}, round {i}: a time is missing or not positive"
        if not _total(arm.bytes_ar) > 0 or not _total(arm.bytes_cycle) > 0:
            yield f"{name}: the byte ledger is empty"
    kept = [i for i, prompt in enumerate(r.prompts) if not prompt.looped]
    if not kept:
        yield "no prompt is left: the reference's text loops in every one"
    for name, arm in (("reference", r), ("candidate", c)):
        if not any(len(arm.prompts[i].committed) > arm.prompts[i].capped for i in kept):
            yield f"{name}: no whole cycle was decoded"


def _broken_prompt(prompt: PromptRecord, K: int) -> Iterator[str]:
    cycles = list(zip(prompt.drafted, prompt.accepted, prompt.committed))
    if not len(prompt.drafted) == len(prompt.accepted) == len(prompt.committed):
        yield "drafted, accepted and committed differ in length"
    elif not all(0 <= accepted <= drafted <= K for drafted, accepted, _ in cycles):
        yield f"a cycle accepted more than it drafted, or drafted more than K={K}"
    elif not all(1 <= committed <= accepted + 1 for _, accepted, committed in cycles):
        yield "a cycle committed more than its accepted drafts and one token"
    elif sum(prompt.committed) != len(prompt.tokens):
        yield f"Σ committed is {sum(prompt.committed)}, the text has {len(prompt.tokens)} tokens"
    elif cycles and not prompt.seconds > 0:
        yield "its decoding took no time"


def _clocked(round_: Round, K: int) -> bool:
    times = [round_.T.get(1, math.nan), round_.T.get(K + 1, math.nan), round_.C, round_.C_ar]
    return all(math.isfinite(t) and t > 0 for t in times) and round_.D >= 0


def _total(ledger: dict[str, float]) -> float:
    return sum(ledger.values())


def meaningless(record: Record, figures: Figures) -> str | None:
    """Why the figures of a record whose identities hold mean nothing all the same. None where they do."""
    return next(_meaningless(record, figures), None)


def _meaningless(record: Record, figures: Figures) -> Iterator[str]:
    yield from _broken_sum(figures, int(record.choices["K"]))
    yield from map(_departed, (checked for checked in record.losslessness if not checked.holds))
    kind = str(record.choices["draft_source"]).partition(":")[0]
    # Look-up has no parameters to lose, and on free text it may well hit nothing. Given acceptance is as it was given.
    if kind not in ("ngram", "synthetic"):
        anchor, first = figures["accept/conditional_1_ref"], figures["accept/conditional_1"]
        if anchor < ANCHOR:
            yield (
                f"the drafter is broken at reference precision: {anchor:.1%} of its first drafts are "
                f"accepted, at least {ANCHOR:.0%} expected"
            )
        if first < CHANCE:
            yield f"first drafts are accepted at chance ({first:.1%}): was every drafter parameter loaded?"
    more, fewer = one_sided_loops(record)
    if kind != "synthetic" and more and stats.binomtest(more, more + fewer, alternative="greater").pvalue < SIGNIFICANT:
        yield (
            f"the candidate's text loops in {more} prompts where the reference's does not, "
            f"the reverse in {fewer}"
        )
    if all(_drafts_are_full(arm, int(record.choices["K"])) for arm in (record.reference, record.candidate)):
        r, c = figures["speed/agreement_ref"], figures["speed/agreement"]
        for name, ratio, tolerance in (
            ("reference: end-to-end tok/s over τ/C", r, AGREEMENT),
            ("candidate: end-to-end tok/s over τ/C", c, AGREEMENT),
            ("end-to-end W_spec over the clocked one", c / r, PAIRED),
        ):
            if not 1 / tolerance <= ratio <= tolerance:
                yield f"{DISTURBED}: {name} is {ratio:.2f}, outside {1 / tolerance:.2f} to {tolerance:.2f}"
    pass_ = figures.estimate("speed/W_AR")
    if pass_.high > STEADY * pass_.low:
        yield f"{DISTURBED}: W_AR may be anything from {pass_.low:.2f} to {pass_.high:.2f}"


def _broken_sum(figures: Figures, K: int) -> Iterator[str]:
    for name, suffix in (("reference", "_ref"), ("candidate", "")):
        tau, tok_s, C = (figures[f"{figure}{suffix}"] for figure in ("accept/tau", "speed/tok_s", "time/C_ms"))
        if not 1 - EXACT <= tau <= K + 1 + EXACT:
            yield f"{name}: τ is {tau:.3f}, outside 1 to K+1 = {K + 1}"
        if not math.isclose(tok_s, 1e3 * tau / C, rel_tol=EXACT):
            yield f"{name}: tok/s is {tok_s:.3f}, τ/C is {1e3 * tau / C:.3f}"
    gap = math.log(figures["bytes/W"]) - math.log(figures["speed/W_spec"])
    parts = sum(figures[loss] for loss in LOSSES.values())
    if not abs(parts - gap) < EXACT:
        yield f"the losses sum to {parts:.6f}, ln W_bytes − ln W_spec is {gap:.6f}"


def _departed(checked: Lossless) -> str:
    return (
        f"{checked.arm}, prompt {checked.prompt_id}: the text departs from plain decoding at token "
        f"{checked.diverged_at}, where the target prefers its own by {checked.logit_gap:.3g} in logits"
    )


def one_sided_loops(record: Record) -> tuple[int, int]:
    """Prompts in which only the candidate's text loops, and in which only the reference's does."""
    looped = [(r.looped, c.looped) for r, c in zip(record.reference.prompts, record.candidate.prompts)]
    return looped.count((False, True)), looped.count((True, False))


def _drafts_are_full(arm: Arm, K: int) -> bool:
    """Did nearly every cycle offer K drafts? Where that is luck, the few clocked cycles are no sample."""
    offered = [drafted for prompt in arm.prompts for drafted in prompt.drafted]
    return sum(offered) >= 0.9 * K * len(offered)
