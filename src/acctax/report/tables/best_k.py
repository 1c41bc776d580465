"""The best K of either side, and what tuning K again gives back."""

from acctax.analyze.sweep import BestK, Scheme, Sweep
from acctax.report.tables.table import Table
from acctax.report.tables.text import NONE, number, share


def best_K(sweep: Sweep) -> Table | None:
    """For the schemes that were measured at several K."""
    swept = [scheme for scheme in sweep.schemes if len(scheme.valid) > 1 and scheme.best_K()]
    if not swept:
        return None
    return Table(
        "best-k", "The best K of both sides",
        ("scheme", "K* reference", "K* candidate", "speed-up", "tax at K* ref.", "at own K*", "by the clock",
         "W_spec there"),
        tuple((_cells(scheme),) for scheme in swept),
        note="K* (every K that may be the best): argmax of tok/s over plain decoding in the same job. "
             "speed-up: over plain decoding, at either side's K*. What the tax at own K* is less than the "
             "tax at the reference's is what tuning K again gives back.",
    )  # fmt: skip


def _cells(scheme: Scheme) -> tuple[str, ...]:
    r, c = scheme.best_K("_ref"), scheme.best_K()
    same, own = scheme.at(r.K), scheme.tax_at_own_K()
    return (
        scheme.label,
        _best(r),
        _best(c),
        f"{r.speedup:.2f}× → {c.speedup:.2f}×",
        share(same["tax/counted"]) if same else NONE,
        *((share(own.counted), share(own.clocked), number(own.R, 3)) if own else (NONE,) * 3),
    )


def _best(best: BestK) -> str:
    first, last = best.ties[0], best.ties[-1]
    if first == last:
        return str(best.K)
    unbroken = last - first < len(best.ties)
    return f"{best.K} ({f'{first}–{last}' if unbroken else ', '.join(map(str, best.ties))})"
