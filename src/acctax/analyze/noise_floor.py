"""The noise floor: the ratios of the reference to itself, all of which are 1 in truth."""

from collections.abc import Iterable

from scipy import stats

from acctax.analyze.intervals import LEVEL, Estimate
from acctax.analyze.rows import Row
from acctax.analyze.verdicts import Name

SIGNIFICANT = 0.05


def ratios(rows: Iterable[Row]) -> list[Estimate]:
    """W_AR and W_spec of every reference among the rows."""
    references = [row for row in rows if row.verdict == Name.REFERENCE]
    return [row.estimate(ratio) for row in references for ratio in ("speed/W_AR", "speed/W_spec")]


def is_restless(rows: Iterable[Row]) -> bool:
    """Do their intervals miss 1 more often than intervals of their level may? Then the clock is worse than it says."""
    measured = ratios(rows)
    missed = sum(not e.low <= 1 <= e.high for e in measured)
    return bool(missed) and stats.binomtest(missed, len(measured), 1 - LEVEL, "greater").pvalue < SIGNIFICANT
