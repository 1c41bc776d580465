"""The tax where K stays as it was, and where either side runs at its own best: tuning gives back the difference."""

from acctax.analyze.sweep import Scheme, Sweep
from acctax.report.tables.table import Table
from acctax.report.tables.text import number, share


def tuned_taxes(sweep: Sweep) -> Table | None:
    """For the candidates that were measured at several K."""
    swept = [scheme for scheme in sweep.schemes if len(scheme.valid) > 1 and scheme.tax_at_own_K()]
    if not swept:
        return None
    return Table(
        "tuned-tax", "The tax at the reference's K* and at each side's own",
        ("scheme", "counted, at K* ref.", "at own K*", "clocked, at K* ref.", "at own K*", "W_spec there"),
        tuple((_cells(scheme),) for scheme in swept),
        note="What the tax at own K* is less than the tax at the reference's is what tuning K again gives back.",
    )  # fmt: skip


def _cells(scheme: Scheme) -> tuple[str, ...]:
    same, own = scheme.at(scheme.best_K("_ref").K), scheme.tax_at_own_K()
    return (
        scheme.label,
        share(same["tax/counted"]),
        share(own.counted),
        share(same["tax/clocked"]),
        share(own.clocked),
        number(own.R, 3),
    )
