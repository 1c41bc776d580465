"""Many rows of one sweep: schemes (the choices without K), the best K of either arm, and the tax at it.

Speeds of different cells come from different minutes, so none is compared across cells as it stands: each is
taken over plain decoding by the same arm in the same job, which drift does not touch.
"""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from acctax import theory
from acctax.analyze.rows import Row
from acctax.analyze.verdicts import Name
from acctax.theory import Numbers

WITHIN = 0.01  # of the best: a K whose interval reaches that far may be the best one


@dataclass(frozen=True)
class BestK:
    K: int  # argmax of the measured speed-up; a tie goes to the smaller K; 0 where plain decoding is fastest
    speedup: float  # over plain decoding
    ties: tuple[int, ...]  # every K that may be the best


@dataclass(frozen=True)
class Tax:
    """A win R and the potential it had, the tax by the clock and by the count (NaN: nothing to tax)."""

    R: float
    potential: float
    clocked: float
    counted: float


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
        """K* of the candidate, or with suffix "_ref" of the reference, K = 0 (speed-up 1) among them."""
        speedups = {0: (1.0, 1.0)}  # K → speed-up, upper end
        for row in self.valid:
            if row.K:
                e = row.estimate(f"speed/speedup{suffix}")
                speedups[row.K] = e.value, e.value if np.isnan(e.high) else e.high
        if len(speedups) == 1:
            return None
        best = max(speedups, key=lambda K: (speedups[K][0], -K))
        reach = (1 - WITHIN) * speedups[best][0]
        ties = sorted(K for K, (_, high) in speedups.items() if high >= reach)
        return BestK(best, speedups[best][0], tuple(ties))

    @property
    def headline(self) -> Row:
        """The cell that speaks for the scheme: the candidate's best valid K."""
        return max(self.valid or self.rows, key=lambda row: (np.nan_to_num(row["speed/speedup"]), -row.K))

    def at(self, K: int) -> Row | None:
        return next((row for row in self.valid if row.K == K), None)

    def tax_at_own_K(self) -> Tax | None:
        """The tax when either side runs at its own best K, over the K that were measured.

        With S(τ, cost) = max over K of τ(K)/cost(K):  R = S(τ_c, cost_c) / S(τ_r, cost_r), and had acceptance
        held, S(τ_r, cost_c) / S(τ_r, cost_r), which at a single K is R/A and gives the tax at the same K;
        what the tax is less than that is what re-tuning K gives back. The cost is the cycle time over the same
        arm's plain step (clocked), or the bytes of a cycle (counted).
        """
        rows = [row for row in self.valid if row.K and not row.is_reference]
        if not rows:
            return None

        def both(name: str) -> tuple[Numbers, Numbers]:
            return tuple(np.array([row[f"{name}{suffix}"] for row in rows]) for suffix in ("_ref", ""))

        tau, C, C_ar, B = map(both, ("accept/tau", "time/C_ms", "time/C_ar_ms", "bytes/cycle_MB"))
        plain = np.exp(np.mean(np.log(C_ar[0] / C_ar[1])))  # the arms' plain steps, over all jobs
        R, held = (plain * ratio for ratio in _own_K(tau, (C[0] / C_ar[0], C[1] / C_ar[1])))
        return Tax(R=R, potential=held - 1, clocked=_tax(R, held), counted=_tax(*_own_K(tau, B)))


def _own_K(tau: tuple[Numbers, Numbers], cost: tuple[Numbers, Numbers]) -> tuple[float, float]:
    """R, and what it had been with the reference's acceptance; (reference, candidate), each over K [n]."""
    reference = np.max(tau[0] / cost[0])
    return float(np.max(tau[1] / cost[1]) / reference), float(np.max(tau[0] / cost[1]) / reference)


def _tax(R: float, held: float) -> float:
    tax = float(theory.acceptance_tax(R, R / held))
    return tax if np.isfinite(tax) else np.nan


@dataclass(frozen=True)
class Sweep:
    schemes: tuple[Scheme, ...]  # references first, then in the order of the rows
    shared: dict[str, str | int | float]  # choices that every cell has

    @property
    def rows(self) -> list[Row]:
        return [row for scheme in self.schemes for row in scheme.rows]

    def having(self, name: Name) -> list[Row]:
        return [row for row in self.rows if row.verdict == name]


def fastest(rows: Iterable[Row]) -> Row | None:
    """The valid candidate of most tok/s, each over its own reference's plain decoding: drift is in no such ratio."""
    candidates = [row for row in rows if not row.is_reference and row.verdict != Name.INVALID]
    return max(candidates, key=lambda row: row["speed/tok_s"] / row["speed/tok_s_ar_ref"], default=None)


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
