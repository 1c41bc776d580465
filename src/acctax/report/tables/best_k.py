"""The best K of either side, measured and predicted, and what a K that was not tuned again costs."""

from acctax.analyze.best_k import BestK, Tuning
from acctax.analyze.sweep import Sweep
from acctax.report.tables.table import Table
from acctax.report.tables.text import NONE, number

MOVED = {True: "yes", False: "no", None: "perhaps"}


def best_K(sweep: Sweep) -> Table | None:
    """For the schemes that were measured at several K."""
    tuned = {scheme.label: scheme.tuning() for scheme in sweep.schemes if len(scheme.valid) > 1}
    rows = tuple((_cells(label, tuning),) for label, tuning in tuned.items() if tuning)
    if not rows:
        return None
    return Table(
        "best-k", "The best K of both sides, reference → candidate",
        ("scheme", "K* ref.", "K* cand.", "classic", "refined", "moved", "speed-up", "stale K loses", "in tok/s"),
        rows,
        note="K* (every K that may be the best): argmax of tok/s over plain decoding in the same job. classic, "
             "refined: K* predicted from the deepest cell alone. stale K: the candidate at the reference's K*, "
             "— where it is its own.",
    )  # fmt: skip


def _cells(label: str, tuning: Tuning) -> tuple[str, ...]:
    r, c = tuning.predicted_reference, tuning.predicted_candidate
    return (
        label,
        _best(tuning.reference),
        _best(tuning.candidate),
        f"{r.classic} → {c.classic}",
        f"{r.refined} → {c.refined}",
        MOVED[tuning.moved],
        f"{tuning.reference.speedup:.2f} → {tuning.candidate.speedup:.2f}",
        f"{tuning.stale:.0%}" if tuning.moved is not False else NONE,
        number(tuning.stale_tok_s, 1) if tuning.moved is not False else NONE,
    )


def _best(best: BestK) -> str:
    first, last = best.ties[0], best.ties[-1]
    if first == last:
        return str(best.K)
    unbroken = last - first < len(best.ties)
    return f"{best.K} ({f'{first}–{last}' if unbroken else ', '.join(map(str, best.ties))})"
