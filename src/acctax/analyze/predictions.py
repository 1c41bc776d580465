"""Speculative tok/s as three models predict it, from ever more of what was measured."""

from collections.abc import Sequence

import numpy as np

from acctax.analyze.intervals import Draws
from acctax.analyze.timing import Timing
from acctax.record import Arm, Scored


def predictions(arm: Arm, timing: Timing, tau: Draws, tau_along: float, bandwidth: float) -> dict[str, float | Draws]:
    """`predict/<model>_tok_s` and `predict/<model>_residual` (predicted / measured − 1) of one arm.

    forecast: before any decoding, τ along a given text over the bytes of a cycle at the measured bandwidth (bytes/s);
    left out where tau_along is NaN.
    classic: BW_eff/B_token·τ/(1 + K·c), which is τ / (T(1) + D): a verification costs one plain pass.
    refined: τ / (T(K+1) + D + O), with T(K+1) clocked apart from any cycle and O what a plain step takes beyond its
    pass, C_ar − T(1). The cycle's own rest C − T(K+1) − D would make it an identity. Of the cycle it takes D alone.
    """
    predicted = {
        "classic": tau / (timing.T1 + timing.D),
        "refined": tau / (timing.T_verify + timing.D + timing.C_ar - timing.T1),
    }
    if not np.isnan(tau_along):
        predicted["forecast"] = tau_along * bandwidth / sum(arm.bytes_cycle.values())
    measured = tau / timing.C
    return {f"predict/{model}_tok_s": tok_s for model, tok_s in predicted.items()} | {
        f"predict/{model}_residual": tok_s / measured - 1 for model, tok_s in predicted.items()
    }


def tau_along(scored: Sequence[Scored], arm: str) -> float:
    """τ of an arm ("reference", "candidate") along the reference's text, over all chains of drafts. NaN without any."""
    chains = sum(prompt.chains for prompt in scored)
    return 1 + sum(sum(getattr(prompt, arm).alive) for prompt in scored) / chains if chains else np.nan
