"""The numbers of a cell under flat names, "group/name": the candidate's, and with `_ref` the reference's."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from acctax.analyze.intervals import Draws, Estimate, estimate


@dataclass(frozen=True)
class Figures:
    """name → value, with `_lo` and `_hi` beside it where there is an interval. NaN is "no value"."""

    values: Mapping[str, float]

    @classmethod
    def of(cls, figures: Mapping[str, float | Draws]) -> "Figures":
        """Arrays [R+1] become a value and the ends of its interval; numbers stay."""
        values = {}
        for name, figure in figures.items():
            if np.ndim(figure) == 0:
                values[name] = float(figure)
            else:
                values[name], values[f"{name}_lo"], values[f"{name}_hi"] = estimate(figure)
        return cls(values)

    def __getitem__(self, name: str) -> float:
        return self.values.get(name, np.nan)

    def estimate(self, name: str) -> Estimate:
        return Estimate(self[name], self[f"{name}_lo"], self[f"{name}_hi"])

    def finite(self) -> dict[str, float]:
        return {name: value for name, value in self.values.items() if np.isfinite(value)}
