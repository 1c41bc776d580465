"""The words of a report: the verdict of each scheme, why, what to do next, and how it was measured."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from acctax.analyze import noise_floor
from acctax.analyze.advice import advise
from acctax.analyze.intervals import Estimate
from acctax.analyze.rows import Row
from acctax.analyze.sweep import Scheme, Sweep
from acctax.analyze.verdicts import Name
from acctax.report.tables.predictions import known_models, why_far
from acctax.report.tables.text import pair


@dataclass(frozen=True)
class Headline:
    """One scheme, spoken for by the candidate's best K."""

    verdict: Name
    title: str  # "nvfp4_qkv K=3"
    reason: str
    speeds: str
    advice: str
    row: Row


def title(sweep: Sweep) -> str:
    """What every cell of the sweep has in common."""
    told = ("target", "draft_source", "workload", "decoding", "device")
    return " · ".join(str(sweep.shared[name]) for name in told if name in sweep.shared)


def headlines(sweep: Sweep) -> list[Headline]:
    """Candidates first; the reference is the footing, not the news."""
    return [_headline(scheme) for scheme in sorted(sweep.schemes, key=lambda scheme: scheme.is_reference)]


def _headline(scheme: Scheme) -> Headline:
    row = scheme.headline
    reason = ". ".join(filter(None, (row.reason, _in_the_same_text(row))))
    return Headline(row.verdict, f"{scheme.label} K={row.K}", reason, _speeds(scheme, row), advise(scheme), row)


def _in_the_same_text(row: Row) -> str:
    """Where each arm on its own text and both on the same text tell different stories of acceptance."""
    if row["same/disagrees"] != 1 or row.verdict in (Name.INVALID, Name.REFERENCE):
        return ""
    own, same = row.estimate("accept/tau_ratio"), row.estimate("same/tau_ratio")
    told, seen = _moves(own), _moves(same)
    if not told:
        story = f"On the same text there is a {seen} that texts of their own hide"
    elif told == seen:
        story = f"The {told} is seen on the same text too, {'larger' if _larger(same, own) else 'smaller'}"
    else:
        story = f"The {told} on own texts is not seen on the same text{f', a {seen} is' * bool(seen)}"
    return f"{story}: τ_c/τ_r {own:.3f} own, {same:.3f} same"


def _moves(tau_ratio: Estimate) -> str:
    """What lost or won acceptance is called; nothing where that is noise."""
    return "tax" if tau_ratio.high < 1 else "bonus" if tau_ratio.low > 1 else ""


def _larger(a: Estimate, b: Estimate) -> bool:
    return abs(np.log(a.value)) > abs(np.log(b.value))


def _speeds(scheme: Scheme, row: Row) -> str:
    if not row.metrics():
        return ""
    speeds = {"speculative": "speed/tok_s", "plain": "speed/tok_s_ar"} if row.K else {"plain": "speed/tok_s"}
    known = {how: figure for how, figure in speeds.items() if np.isfinite(row[figure])}
    parts = [f"{how} {pair(row, figure, 1)}" for how, figure in known.items()]
    parts[-1] += " tok/s"
    best = scheme.best_K()
    if best and len(scheme.valid) > 1:
        parts.append(f"best K {scheme.best_K('_ref').K} → {best.K}")
    if len(scheme.rows) > 1:
        parts.append(", ".join(f"{name} at K={Ks}" for name, Ks in _verdicts_over_K(scheme).items()))
    return ", ".join(parts)


def _verdicts_over_K(scheme: Scheme) -> dict[Name, str]:
    """Verdict → "1, 2, 5"."""
    Ks: dict[Name, list[str]] = {}
    for row in scheme.rows:
        Ks.setdefault(row.verdict, []).append(str(row.K))
    return {name: ", ".join(its) for name, its in Ks.items()}


def notes(sweep: Sweep) -> list[str]:
    """How it was measured, and what bounds the numbers."""
    rows = [row for row in sweep.rows if row.metrics()]
    if not rows:
        return []
    first = rows[0]
    if not first.rounds:
        return [f"Published: {first.environment['source']}. Nothing was measured here."]
    seeds = sorted({row.choices["seed"] for row in rows})
    return [
        *_noise_floor(sweep),
        f"Counted on {_range(rows, 'prompt')}, clocked in {_range(rows, 'interleaved round')}; "
        "intervals are 95 %, a bootstrap over prompts and rounds, paired across the arms.",
        *_looped(rows),
        *_one_K(rows),
        f"Memory reads at {_median(rows, 'bytes/bandwidth_GBs'):.1f} GB/s; a plain pass reached "
        f"{_median(rows, 'bytes/BW_eff_GBs_ref'):.1f} of the reference, "
        f"{_median(rows, 'bytes/BW_eff_GBs'):.1f} of the candidates.",
        f"End-to-end tok/s over τ/C: {_median(rows, 'speed/agreement_ref'):.2f} reference, "
        f"{_median(rows, 'speed/agreement'):.2f} candidates (medians).",
        *_predictions(sweep),
        " · ".join([*(first.environment[key] for key in ("hardware", "kernels", "versions", "commit")
                      if first.environment.get(key)), f"seed {', '.join(map(str, seeds))}"]),
        "A verdict belongs to this pair of target and drafter, one text at a time, on this hardware.",
    ]  # fmt: skip


def _noise_floor(sweep: Sweep) -> list[str]:
    """How far the ratios of the reference to itself lie from 1."""
    ratios = noise_floor.ratios(sweep.rows)
    if not ratios:
        return []
    covered = sum(e.low <= 1 <= e.high for e in ratios)
    farthest = 100 * max(abs(e.value - 1) for e in ratios)
    floor = (f"Noise floor, the reference against itself: W_AR and W_spec lie within {farthest:.1f} % of 1, "
             f"{covered} of {len(ratios)} intervals contain it.")  # fmt: skip
    if not noise_floor.is_restless(sweep.rows):
        return [floor]
    return [f"WARNING: {floor} A quiet machine's would miss it once in twenty: what rests on the clock in this sweep "
            "is less certain than its intervals say. Measure again while nothing else runs."]  # fmt: skip


def _looped(rows: Sequence[Row]) -> list[str]:
    left_out = max(row["behaviour/looped_ref"] for row in rows)
    candidate = max(row["behaviour/looped"] for row in rows)
    if not left_out and not candidate:
        return ["No text loops."]
    return [f"Looping texts: {left_out:.0f} of the reference, left out of both arms; at most "
            f"{candidate:.0f} of a candidate."]  # fmt: skip


def _one_K(rows: Sequence[Row]) -> list[str]:
    K = {row.K for row in rows}
    if len(K) > 1:
        return []
    if K == {0}:
        return ["Only plain decoding, K=0, was measured: sweep K=1,2,3,4,5,6 to see what drafts add."]
    return [f"Only K={K.pop()} was measured: a lower acceptance wants a smaller K, sweep K=1,2,3,4,5,6."]


def _predictions(sweep: Sweep) -> list[str]:
    known = known_models(sweep)
    off = ", ".join(f"{model} {100 * residual:.1f} %" for model, residual in known.items())
    far = "".join(f"; the {model} is {why}" for model, residual in known.items() for why in why_far(model, residual))
    return [f"Predicted tok/s is off by, in the median: {off}{far}."] if off else []


def _range(rows: Sequence[Row], unit: str) -> str:
    """"24 prompts", "1 round", "6 to 12 rounds"."""
    values = {getattr(row, f"{unit.split()[-1]}s") for row in rows}
    if values == {1}:
        return f"1 {unit}"
    return f"{min(values)}{f' to {max(values)}' * (len(values) > 1)} {unit}s"


def _median(rows: Sequence[Row], figure: str) -> float:
    return float(np.median([row[figure] for row in rows]))
