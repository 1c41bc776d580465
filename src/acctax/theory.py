"""Closed forms: what acceptance, depth and bytes promise, and how much of it acceptance takes back.

Every function takes floats or NumPy arrays that broadcast. No clock, no model, nothing of ours.
"""

import numpy as np
from numpy.typing import ArrayLike, NDArray

Numbers = NDArray[np.float64]


def tau(alpha: ArrayLike, K: int) -> Numbers:
    """Committed tokens per cycle when each of K drafts is accepted with probability α, independently.

    τ = 1 + α + … + α^K = (1 − α^(K+1)) / (1 − α)   (Leviathan et al. 2023, equation 1); K+1 at α = 1.
    """
    alpha = np.asarray(alpha, float)
    r = np.where(alpha == 1, np.nan, 1 - alpha)
    with np.errstate(divide="ignore"):  # ln 0 at α = 0 ends as τ = 1
        return np.where(alpha == 1, K + 1.0, -np.expm1((K + 1) * np.log1p(-r)) / r)  # exact for α near 1 too


def alpha_geo(tau_: ArrayLike, K: int) -> Numbers:
    """The constant α in [0, 1] at which K drafts give τ: the inverse of `tau`, by bisection.

    τ outside 1..K+1 gives the nearer end; K = 0 drafts nothing, so its α is NaN.
    """
    target = np.asarray(tau_, float)
    if K == 0:
        return np.full(target.shape, np.nan)
    low, high = np.zeros(target.shape), np.ones(target.shape)
    for _ in range(52):  # one bit of a float's mantissa each
        middle = (low + high) / 2
        below = tau(middle, K) < target
        low, high = np.where(below, middle, low), np.where(below, high, middle)
    return np.where(np.isnan(target), np.nan, (low + high) / 2)


def alpha_mean(tau_: ArrayLike, K: int) -> Numbers:
    """Accepted drafts over K: (τ − 1) / K. NaN at K = 0."""
    return (np.asarray(tau_, float) - 1) / (K or np.nan)


def speedup(tau_: ArrayLike, K: int, c: ArrayLike) -> Numbers:
    """S = τ / (1 + K·c): gain over plain decoding if a verification costs one step and a draft c of one."""
    return np.asarray(tau_, float) / (1 + K * np.asarray(c, float))


def optimal_K(alpha: float, c: float, K_max: int = 64) -> int:
    """K* = argmax over 0..K_max of `speedup` at a constant α; a tie goes to the smaller K."""
    return int(np.argmax([speedup(tau(alpha, K), K, c) for K in range(K_max + 1)]))


def classic_tok_s(bandwidth: ArrayLike, bytes_token: float, tau_: ArrayLike, K: int, c: ArrayLike) -> Numbers:
    """tok/s = BW_eff / B_token · τ / (1 + K·c), with the bandwidth in bytes/s and B_token in bytes."""
    return np.asarray(bandwidth, float) / bytes_token * speedup(tau_, K, c)


def fit_cycle(K: ArrayLike, C: ArrayLike) -> tuple[float, float]:
    """(a, b) of the cycle time C = a + b·K over several K, by least squares: b is one draft and its row verified."""
    b, a = np.polyfit(np.asarray(K, float), np.asarray(C, float), 1)
    return float(a), float(b)


def fit_c(K: ArrayLike, tau_: ArrayLike, S: ArrayLike) -> float:
    """The c at which `speedup` gives the speed-ups S measured over several K: τ/S − 1 = K·c, least squares."""
    K = np.asarray(K, float)
    return float(K @ (np.asarray(tau_, float) / np.asarray(S, float) - 1) / (K @ K))


def potential(R: ArrayLike, A: ArrayLike) -> Numbers:
    """The win had acceptance held: R/A − 1, with R the ratio of tok/s, A of τ, candidate over reference."""
    return np.asarray(R, float) / np.asarray(A, float) - 1


def acceptance_tax(R: ArrayLike, A: ArrayLike) -> Numbers:
    """The share of the potential win that lost acceptance took: 1 − (R − 1) / (R/A − 1). Negative is a bonus.

    Where the potential is not positive there was nothing to tax. The limit as it vanishes stands in, so
    that intervals stay ordered: +inf for A < 1, −inf for A > 1, NaN for A = 1.
    """
    R, A = np.broadcast_arrays(np.asarray(R, float), np.asarray(A, float))
    won = potential(R, A)
    limit = np.where(A < 1, np.inf, np.where(A > 1, -np.inf, np.nan))
    return np.where(won > 0, 1 - (R - 1) / np.where(won > 0, won, np.nan), limit)


def counted_tax(W_cycle: ArrayLike, A: ArrayLike) -> Numbers:
    """The tax free of any clock: 1 − (W_cycle·A − 1) / (W_cycle − 1), W_cycle the ratio of bytes a cycle.

    It is `acceptance_tax` of a machine whose time is its bytes; the same limits hold where W_cycle ≤ 1.
    """
    return acceptance_tax(np.asarray(W_cycle, float) * np.asarray(A, float), A)
