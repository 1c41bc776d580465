"""Speculative tok/s as three models predict it, from ever more of what was measured."""

from acctax.analyze.intervals import Draws
from acctax.analyze.timing import Timing
from acctax.record import Arm


def predictions(
    arm: Arm, timing: Timing, tau: Draws, tau_along: Draws | float | None, bandwidth: float
) -> dict[str, float | Draws]:
    """`predict/<model>_tok_s` and `predict/<model>_residual` (predicted / measured − 1) of one arm.

    forecast: before the arm decodes, its τ along a text that is there (`same/tau`; None: there was none, no forecast)
    over the bytes of its cycle at the measured bandwidth (bytes/s).
    classic: BW_eff/B_token·τ/(1 + K·c), which is τ / (T(1) + D): a verification costs one plain pass.
    refined: τ / (T(K+1) + D + O), with T(K+1) clocked apart from any cycle and O what a plain step takes beyond its
    pass, C_ar − T(1). The cycle's own rest C − T(K+1) − D would make it an identity. Of the cycle it takes D alone.
    """
    predicted = {
        "classic": tau / (timing.T1 + timing.D),
        "refined": tau / (timing.T_verify + timing.D + timing.C_ar - timing.T1),
    }
    if tau_along is not None:
        predicted["forecast"] = tau_along * bandwidth / sum(arm.bytes_cycle.values())
    measured = tau / timing.C
    return {f"predict/{model}_tok_s": tok_s for model, tok_s in predicted.items()} | {
        f"predict/{model}_residual": tok_s / measured - 1 for model, tok_s in predicted.items()
    }
