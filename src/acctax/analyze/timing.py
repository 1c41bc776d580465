"""The clock, round by round: what a pass, a draft and a cycle take, for the sample and for its resamples."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from acctax.analyze.intervals import Draws, widen
from acctax.record import Round


@dataclass(frozen=True)
class Timing:
    """One arm's times in seconds, each [R+1]: the geometric mean over rounds.

    Geometric, because rounds differ by a factor that both arms share: it cancels in every ratio of two
    times, and logarithms of ratios add up.
    """

    T1: Draws  # a pass over one row
    T_verify: Draws  # a pass over K+1 rows
    D: Draws  # drafting K tokens
    C: Draws  # a cycle
    C_ar: Draws  # a plain step

    @classmethod
    def of(cls, rounds: Sequence[Round], K: int, weights: NDArray[np.float64], looks: int = 1) -> "Timing":
        """weights [R+1, rounds] from `intervals.resample`, the same for both arms."""
        log = np.log([[r.T[1], r.T[K + 1], r.C, r.C_ar] for r in rounds])
        share = np.array([r.D / r.T[1] for r in rounds])  # of a pass: drift-free; 0 where nothing drafts
        T1, T_verify, C, C_ar = (np.exp(widen(draws, len(rounds), looks)) for draws in (weights @ log).T)
        return cls(T1, T_verify, widen(weights @ share, len(rounds), looks) * T1, C, C_ar)

    @property
    def O(self) -> Draws:  # noqa: E743 (the field's letter)
        """The rest of a cycle: C − T(K+1) − D."""
        return self.C - self.T_verify - self.D
