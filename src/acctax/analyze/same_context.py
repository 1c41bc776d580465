"""Both arms on the reference's text: acceptance in the same context, and how far the targets are apart."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from acctax.analyze.intervals import Draws, estimate, widen
from acctax.record import Along, Scored


def figures(scored: Sequence[Scored], K: int, weights: NDArray[np.float64], looks: int = 1) -> dict[str, Draws]:
    """Of P prompts, each figure [R+1] for weights [R+1, P]; `_ref` is the reference's. Empty where nothing was scored.

    τ is 1 + Σ over depth of the chance that a draft and all before it are accepted, which at T = 1 is unbiased and for
    greedy text weighs every position alike, where decoding skips what it accepted: compare it with itself.
    """
    positions = np.array([prompt.positions for prompt in scored], float)
    if not positions.sum():
        return {}

    def mean(sums: Sequence[float], counts: NDArray[np.float64]) -> Draws:
        with np.errstate(invalid="ignore", divide="ignore"):
            return widen(weights @ np.array(sums, float) / (weights @ counts), len(scored), looks)

    named = {
        "same/tv": mean([prompt.tv for prompt in scored], positions),
        "same/kl": mean([prompt.kl for prompt in scored], positions),
        "same/agreement": mean([prompt.agree for prompt in scored], positions),
        "same/perplexity_ref": np.exp(mean([prompt.nll_reference for prompt in scored], positions)),
        "same/perplexity": np.exp(mean([prompt.nll_candidate for prompt in scored], positions)),
    }
    chains = np.array([prompt.chains for prompt in scored], float)
    if not chains.sum():
        return named
    for suffix, arm in (("_ref", "reference"), ("", "candidate")):
        along: list[Along] = [getattr(prompt, arm) for prompt in scored]
        overlaps = [mean([its.overlap[i] for its in along], chains) for i in range(K)]
        named |= {f"same/alpha_tv_{i}{suffix}": overlap for i, overlap in enumerate(overlaps, 1)}
        named[f"same/alpha_tv{suffix}"] = np.mean(overlaps, axis=0)
        named[f"same/tau{suffix}"] = 1 + mean([sum(its.alive) for its in along], chains)
    return named | {
        "same/tau_ratio": named["same/tau"] / named["same/tau_ref"],
        "same/tau_change": named["same/tau"] - named["same/tau_ref"],
    }


def disagrees(free: Draws, same: Draws) -> float:
    """1 where two ratios' intervals do not touch, else 0: texts of their own then hide or feign a loss."""
    a, b = estimate(free), estimate(same)
    return float(a.low > b.high or b.low > a.high)
