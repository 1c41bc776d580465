"""Many rows of one sweep, by scheme: the choices without K."""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from acctax.analyze import best_k
from acctax.analyze.best_k import BestK, Tax, Tuning
from acctax.analyze.rows import Row
from acctax.analyze.verdicts import Name


@dataclass(frozen=True)
class Scheme:
    label: str
    choices: dict[str, str | int | float]  # without K
    rows: tuple[Row, ...]  # by K

    @property
    def valid(self) -> list[Row]:
        return [row for row in self.rows if row.verdict != Name.INVALID]

    @property
    def is_reference(self) -> bool:
        return all(row.is_reference for row in self.rows)

    def best_K(self, suffix: str = "") -> BestK | None:
        """K* of the candidate, or with suffix "_ref" of the reference."""
        return best_k.best_K(self.valid, suffix)

    def tuning(self) -> Tuning | None:
        """Both K*, predicted ones, and what running the candidate at the reference's costs."""
        return best_k.tune(self.valid)

    def tax_at_own_K(self) -> Tax | None:
        """The tax when either side runs at its own best K."""
        return best_k.tax_at_own_K(self.valid)

    @property
    def headline(self) -> Row:
        """The cell that speaks for the scheme: the candidate's best valid K."""
        return max(self.valid or self.rows, key=lambda row: (np.nan_to_num(row["speed/speedup"]), -row.K))

    def at(self, K: int) -> Row | None:
        return next((row for row in self.valid if row.K == K), None)


@dataclass(frozen=True)
class Sweep:
    schemes: tuple[Scheme, ...]  # references first, then in the order of the rows
    shared: dict[str, str | int | float]  # choices that every cell has

    @property
    def rows(self) -> list[Row]:
        return [row for scheme in self.schemes for row in scheme.rows]

    @property
    def valid(self) -> list[Row]:
        return [row for scheme in self.schemes for row in scheme.valid]

    @property
    def best(self) -> Row | None:
        """The best configuration: the fastest candidate, or the fastest reference where nothing else was measured."""
        return fastest(self.rows) or max(self.valid, key=_total, default=None)

    def median_residual(self, model: str) -> float:
        """Of "forecast", "classic" or "refined": median |predicted / measured − 1| over both arms of every valid cell.

        NaN where it predicted none.
        """
        residuals = np.array([row[f"predict/{model}_residual{arm}"] for row in self.valid for arm in ("", "_ref")])
        known = residuals[np.isfinite(residuals)]
        return float(np.median(np.abs(known))) if known.size else np.nan

    def deepest(self, figure: str) -> list[tuple[Scheme, Row]]:
        """Every scheme and its valid row of most drafts, where that has any and the figure a value."""
        found = [(scheme, scheme.valid[-1]) for scheme in self.schemes if scheme.valid]
        return [(scheme, row) for scheme, row in found if row.K and np.isfinite(row[figure])]

    def having(self, name: Name) -> list[Row]:
        return [row for row in self.rows if row.verdict == name]


def fastest(rows: Iterable[Row]) -> Row | None:
    """The valid candidate of most tok/s, each over its own reference's plain decoding: drift is in no such ratio."""
    candidates = [row for row in rows if not row.is_reference and row.verdict != Name.INVALID]
    return max(candidates, key=_total, default=None)


def _total(row: Row) -> float:
    return np.nan_to_num(row["speed/W_total"])


def sweep(rows: Iterable[Row]) -> Sweep:
    """Group rows by their choices without K. Raises ValueError where there is no row."""
    rows = list(rows)
    if not rows:
        raise ValueError("a sweep without a measured cell has nothing to report")
    varying = {name for row in rows for name in row.choices if row.choices[name] != rows[0].choices[name]}
    grouped: dict[tuple, list[Row]] = {}
    for row in rows:
        grouped.setdefault(tuple((n, v) for n, v in row.choices.items() if n != "K"), []).append(row)
    schemes = [
        Scheme(_label(dict(choices), varying), dict(choices), tuple(sorted(group, key=lambda row: row.K)))
        for choices, group in grouped.items()
    ]
    shared = {name: value for name, value in rows[0].choices.items() if name not in varying}
    return Sweep(tuple(sorted(schemes, key=lambda scheme: not scheme.is_reference)), shared)


def _label(choices: dict[str, str | int | float], varying: set[str]) -> str:
    """The quantization, always, and whatever else tells this scheme from the others of the sweep."""
    parts = [str(choices["target_quant"])]
    if choices["drafter_quant"] != "none":
        parts.append(f"drafter {choices['drafter_quant']}")
    others = [n for n in choices if n in varying and not n.endswith("_quant")]
    return ", ".join(parts + [f"{n} {choices[n]}" for n in others])
