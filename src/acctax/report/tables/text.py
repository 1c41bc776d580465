"""Numbers and names as a table's cells say them."""

import numpy as np

from acctax.analyze.rows import Row
from acctax.analyze.sweep import Scheme, Sweep

NONE = "—"


def name(sweep: Sweep, scheme: Scheme, row: Row) -> str:
    """What tells a cell from the others of its sweep."""
    several_K = len({row.K for row in sweep.rows}) > 1
    parts = [scheme.label] if len(sweep.schemes) > 1 or not several_K else []
    return " ".join(parts + [f"K={row.K}"] * several_K)


def number(value: float, digits: int) -> str:
    return NONE if np.isnan(value) else f"{value:.{digits}f}".replace("-", "−")


def pair(row: Row, figure: str, digits: int) -> str:
    """Reference → candidate; one dash where neither has a value."""
    if np.isnan([row[figure], row[f"{figure}_ref"]]).all():
        return NONE
    return f"{number(row[f'{figure}_ref'], digits)} → {number(row[figure], digits)}"


def signed(value: float, digits: int = 1) -> str:
    """With a true minus sign, and no sign on what rounds to zero."""
    if np.isnan(value):
        return NONE
    text = f"{value:+.{digits}f}"
    return text[1:] if not float(text) else text.replace("-", "−")


def percent(value: float, digits: int = 1) -> str:
    """Of a share: 0.1178 is "+11.8 %"."""
    return NONE if np.isnan(value) else f"{signed(100 * value, digits)} %"


def tax(row: Row, figure: str, digits: int = 0) -> str:
    """Its share of the win with its interval; one that is negative is a bonus."""
    return f"{row.estimate(figure):.{digits}%}"


def share(value: float) -> str:
    """The same without an interval."""
    return NONE if np.isnan(value) else f"{number(100 * value, 0)} %"
