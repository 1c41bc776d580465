"""The best K of an arm: measured and predicted, what a stale one costs, and the tax at each side's own.

Speeds of different cells come from different minutes, so none is compared across cells as it stands: each is
taken over plain decoding by the same arm in the same job, which drift does not touch.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from acctax import theory
from acctax.analyze.intervals import Estimate, estimate
from acctax.analyze.rows import Row

WITHIN = 0.01  # of the best: a K whose interval reaches that far may be the best one


@dataclass(frozen=True)
class BestK:
    K: int  # argmax of the measured speed-up; a tie goes to the smaller K; 0 where plain decoding is fastest
    speedup: float  # over plain decoding
    ties: tuple[int, ...]  # every K that may be the best


@dataclass(frozen=True)
class PredictedK:
    """K* as the cell with the most drafts, the deepest, predicts it: what need not be measured at every K."""

    classic: int  # argmax of τ/(1 + K·c), its α_geo taken as constant
    refined: int  # argmax of `speedups`
    speedups: tuple[float, ...]  # over plain decoding, for K = 0..deepest
    residual: float  # of those, predicted / measured − 1: median absolute value over the other cells, NaN without any


@dataclass(frozen=True)
class Tax:
    """A win R and the potential it had, the tax by the clock and by the count (NaN: nothing to tax)."""

    R: float
    potential: float
    clocked: float
    counted: float


@dataclass(frozen=True)
class Tuning:
    """K of a scheme: the reference's best, the candidate's, and the loss of running the candidate at the former."""

    reference: BestK
    candidate: BestK
    predicted_reference: PredictedK
    predicted_candidate: PredictedK
    stale: Estimate  # share of the candidate's tok/s that is lost at the reference's K*
    stale_tok_s: float  # the same in tok/s

    @property
    def moved(self) -> bool | None:
        """Did quantization move K*? None where the intervals cannot tell."""
        if self.reference.K == self.candidate.K:
            return False
        return None if set(self.reference.ties) & set(self.candidate.ties) else True


def best_K(rows: Sequence[Row], suffix: str = "") -> BestK | None:
    """K* of the candidate, or with suffix "_ref" of the reference, K = 0 (speed-up 1) among them.

    rows: the valid ones of one scheme. None where none of them drafts at a known speed.
    """
    speedups = {0: (1.0, 1.0, 1.0)}  # K → speed-up, its ends
    for row in rows:
        if row.K and np.isfinite(row[f"speed/speedup{suffix}"]):  # published figures may leave it out
            e = row.estimate(f"speed/speedup{suffix}")
            speedups[row.K] = (e.value,) * 3 if np.isnan(e.low) else e
    if len(speedups) == 1:
        return None
    best = max(speedups, key=lambda K: (speedups[K][0], -K))
    reach, lower = ((1 - WITHIN) * speedups[best][end] for end in (0, 1))
    # Speed-ups are over plain decoding, K = 0: how well it is known stands in the others' intervals.
    ties = sorted(K for K, (_, _, high) in speedups.items() if high >= (reach if K else lower))
    return BestK(best, speedups[best][0], tuple(ties))


def predicted_K(rows: Sequence[Row], suffix: str = "") -> PredictedK | None:
    """From the deepest of a scheme's valid rows alone. None where none of them drafts.

    refined: τ(K) is 1 + the mean of min(accepted, K) over its cycles; C(K) = T(K+1) + D·K/deepest + O, by its own
    T(M), D and O. So the prediction is an identity at the deepest K, and there alone.
    """
    drafting = [row for row in rows if row.K]
    if not drafting:
        return None
    deepest = max(drafting, key=lambda row: row.K)
    speedups = _speedups(deepest, suffix)
    off = [speedups[row.K] / row[f"speed/speedup{suffix}"] - 1 for row in drafting if row is not deepest]
    classic = theory.optimal_K(deepest[f"accept/alpha_geo{suffix}"], deepest[f"time/c{suffix}"], deepest.K)
    refined = int(np.argmax(np.nan_to_num(speedups)))
    return PredictedK(classic, refined, speedups, float(np.median(np.abs(off))) if off else np.nan)


def _speedups(row: Row, suffix: str) -> tuple[float, ...]:
    D, O, C_ar = (row[f"time/{name}_ms{suffix}"] for name in ("D", "O", "C_ar"))  # noqa: E741 (the field's letter)
    lengths = np.arange(row.K + 1)
    cycles = np.array([row[f"accept/cycles_of_length_{n}{suffix}"] for n in lengths])
    speedups = [1.0]
    for K in lengths[1:]:
        tau = 1 + np.minimum(lengths, K) @ cycles / cycles.sum()
        speedups.append(float(tau * C_ar / (row[f"time/T_{K + 1}_ms{suffix}"] + D * K / row.K + O)))
    return tuple(speedups)


def tune(rows: Sequence[Row]) -> Tuning | None:
    """rows: the valid ones of one scheme. None where none of them drafts."""
    r, c = best_K(rows, "_ref"), best_K(rows)
    if r is None or c is None:
        return None
    at = {row.K: row for row in rows}
    best, stale = (at[K].resampled("speed/speedup") if K else np.ones(1) for K in (c.K, r.K))
    lost = estimate(1 - stale / best) if r.K != c.K else Estimate(0.0, 0.0, 0.0)
    tok_s = at[c.K]["speed/tok_s"] if c.K else rows[0]["speed/tok_s_ar"]
    return Tuning(r, c, predicted_K(rows, "_ref"), predicted_K(rows), lost, lost.value * tok_s)


def tax_at_own_K(rows: Sequence[Row]) -> Tax | None:
    """The tax when either side runs at its own K*, as `best_K` has it. rows: a scheme's valid ones.

    At the reference's K* the win is R = W_spec and its potential W_spec/A − 1. The candidate at its own K* multiplies R
    by what that gains over the reference's, the potential stays: the tax falls by the share that tuning gives back, and
    by nothing where both K* are one. By the clock the gain is that of speed-ups over plain decoding, by the count of
    τ over the bytes of a cycle. None where the reference decodes plainly at best: no acceptance to lose. No interval:
    the best of noisy values is too good by itself, and a bootstrap that repeats the choice of K covered the truth in
    76 to 87 % of simulations.
    """
    r, c = best_K(rows, "_ref"), best_K(rows)
    at = {row.K: row for row in rows if row.K and not row.is_reference}
    if r is None or c is None or r.K not in at:
        return None
    same, own = at[r.K], at.get(c.K)
    gain = c.speedup / same["speed/speedup"]
    per_byte = own["accept/tau"] / own["bytes/cycle_MB"] if own else 1 / same["bytes/token_MB"]
    gain_counted = per_byte / (same["accept/tau"] / same["bytes/cycle_MB"])
    W_spec, W_cycle, A = (same[name] for name in ("speed/W_spec", "bytes/W_cycle", "accept/tau_ratio"))
    return Tax(R=W_spec * gain, potential=W_spec / A - 1, clocked=_tax(W_spec * gain, W_spec / A),
               counted=_tax(W_cycle * A * gain_counted, W_cycle))  # fmt: skip


def _tax(R: float, held: float) -> float:
    tax = float(theory.acceptance_tax(R, R / held))
    return tax if np.isfinite(tax) else np.nan
