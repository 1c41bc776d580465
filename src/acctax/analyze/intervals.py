"""The paired bootstrap: one set of weights over prompts and one over rounds, used by both arms.

A figure is evaluated on a vector of R+1 values at once: entry 0 is the measured sample itself, entries 1..R
are resamples of it. Whatever drift or difficulty both arms shared in a round or a prompt cancels in a ratio,
because both saw it in the same resamples.
"""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import stats

Draws = NDArray[np.float64]  # [R+1]: the sample, then its resamples

LEVEL = 0.95
# Of n units, the most extreme resample has a probability of n^−n: of three it is above the 2.5 % that a 95 % interval
# leaves out at either end, so that such an interval could only ever end at the sample's own extremes.
FEWEST = 4


class Estimate(NamedTuple):
    """A measured value and its 95 % interval. An end may be infinite; NaN is "no value"."""

    value: float
    low: float
    high: float

    def __format__(self, spec: str) -> str:
        """`f"{e:.3f}"` is "0.952 [0.930, 0.974]" and `f"{e:.0%}"` is "84 % [71, 97]"; without a value "—"."""
        if math.isnan(self.value):
            return "—"
        scale, spec, unit = (100, f"{spec[:-1]}f", " %") if spec.endswith("%") else (1, spec, "")
        value, low, high = (format(scale * x, spec).replace("inf", "∞").replace("-", "−") for x in self)
        return f"{value}{unit}" + ("" if math.isnan(self.low) else f" [{low}, {high}]")

    def __neg__(self) -> "Estimate":
        return Estimate(-self.value, -self.high, -self.low)


def resample(n: int, resamples: int, rng: np.random.Generator) -> NDArray[np.float64]:
    """Weights [R+1, n], each row summing to 1: the plain mean first, then R draws of n with replacement."""
    drawn = rng.multinomial(n, np.full(n, 1 / n), size=resamples) / n
    return np.concatenate([np.full((1, n), 1 / n), drawn])


def widen(draws: Draws, n: int, looks: int = 1) -> Draws:
    """Stretch resamples about the sample so that few units do not look like certainty.

    A bootstrap of a mean of n has a standard deviation √((n−1)/n) too small and takes the normal quantile
    where Student's t with n−1 degrees belongs; both factors are put back. Fewer than FEWEST units have no
    interval: the resamples become NaN. looks: how often a verdict could end the measurement; the interval is
    then that of 1 − 0.05 / looks (Bonferroni), so that all looks together err as seldom as one.
    """
    if n < FEWEST:
        return np.concatenate([draws[:1], np.full(len(draws) - 1, np.nan)])
    tail = (1 + LEVEL) / 2
    factor = np.sqrt(n / (n - 1)) * stats.t.ppf(1 - (1 - tail) / looks, n - 1) / stats.norm.ppf(tail)
    return draws[0] + factor * (draws - draws[0])


def estimate(draws: Draws) -> Estimate:
    """The sample's value and the percentile interval of its resamples; undefined resamples are left out."""
    defined = draws[1:][~np.isnan(draws[1:])]
    if not defined.size:
        return Estimate(float(draws[0]), np.nan, np.nan)
    tail = (1 - LEVEL) / 2
    # An end may be infinite: no interpolation.
    low, high = np.quantile(defined, [tail, 1 - tail], method="inverted_cdf")
    return Estimate(float(draws[0]), float(low), float(high))
