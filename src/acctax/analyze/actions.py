"""What to do next with the best configuration, by what it would gain."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from acctax import theory
from acctax.analyze.best_k import predicted_K
from acctax.analyze.intervals import Draws, estimate
from acctax.analyze.rows import Row
from acctax.analyze.sweep import Sweep
from acctax.record import Lever, Scored

ALPHA = 0.05  # what a better drafter might add
NIL = 0.0005  # a gain that a table shows as 0.0 %
SAME = ("target", "workload", "decoding", "device", "seed")  # choices that cells must share to be alternatives


@dataclass(frozen=True)
class Action:
    name: str
    tok_s: float  # after it, in the minutes in which the best configuration was measured
    gain: float  # a share of the best configuration's tok/s; negative: rejected
    low: float  # 95 % interval of the gain, NaN where predicted
    high: float
    known: Literal["measured", "predicted", "bound"]  # a bound: no step that anyone can take leads all the way there


def rank(sweep: Sweep, levers: Sequence[Lever] = ()) -> list[Action]:
    """Every lever for `sweep.best` by its gain, so that those which lose come last; none of unknown or no effect.

    Measured: the other schemes of the sweep at their best K, and the reference at its own, each over the reference's
    plain decoding in its job. Predicted: tok/s = τ / (T(K+1) + D + O) of the best cell with one term changed.
    levers: what else could be quantized in that cell, its bytes read at the rate that the cell reads at, its τ moved
    as it moves along the reference's text; a lever without a score there goes by its bytes alone.
    """
    best = sweep.best
    if best is None:
        return []
    actions = [*_measured(sweep, best), *_predicted(sweep, best), *(_quantized(best, lever) for lever in levers)]
    telling = (a for a in actions if np.isfinite(a.gain) and (a.known == "measured" or abs(a.gain) >= NIL))
    return sorted(telling, key=lambda action: -action.gain)


def _measured(sweep: Sweep, best: Row) -> Iterator[Action]:
    def action(name: str, total: Draws) -> Action:
        """total: tok/s over the reference's plain decoding in the same job, as `speed/W_total`."""
        gain, low, high = estimate(total / best.resampled("speed/W_total") - 1)
        return Action(name, best["speed/tok_s"] * (1 + gain), gain, low, high, "measured")

    alike = [scheme for scheme in sweep.schemes if scheme.valid and _alike(scheme.choices, best.choices)]
    for scheme in alike:
        if best not in scheme.valid and not scheme.is_reference:
            row = scheme.headline
            yield action(f"{scheme.label}, K={row.K}", row.resampled("speed/W_total"))
    if best.K and best["speed/speedup"] < 1:
        yield action("plain decoding, K=0", best.resampled("speed/W_total") / best.resampled("speed/speedup"))
    if not best.is_reference:
        row = max((row for scheme in alike for row in scheme.valid), key=lambda row: row["speed/speedup_ref"])
        if row["speed/speedup_ref"] > 1:
            how = f"{row.choices['draft_source']} K={row.K}"
            yield action(f"nothing quantized, {how}", row.resampled("speed/speedup_ref"))
        else:
            yield action("nothing quantized, plain decoding", np.ones(1))


def _alike(choices: Mapping, others: Mapping) -> bool:
    return all(choices.get(name) == others.get(name) for name in SAME)


def _predicted(sweep: Sweep, best: Row) -> Iterator[Action]:
    T, D, O = (best[f"time/{name}_ms"] for name in ("T_verify", "D", "O"))  # noqa: E741 (the field's letter)
    cycle, drafter = best["bytes/cycle_MB"], _drafter_bytes(best)
    bandwidth = best["bytes/bandwidth_GBs"]  # GB/s is MB/ms
    D_ceiling = drafter / bandwidth if drafter else D
    ceiling = (cycle - drafter) / bandwidth + D_ceiling + max(O, 0.0)
    yield replace(_prediction(best, "kernels at the bandwidth ceiling", C=ceiling), known="bound")
    if O > 0:  # else it is less than the clock can tell from none
        yield replace(_prediction(best, "no overhead", C=T + D), known="bound")
    if not best.K:
        return
    alpha = best["accept/alpha_geo"]
    better = theory.tau(min(alpha + ALPHA, 1.0), best.K) / theory.tau(alpha, best.K)
    yield _prediction(best, f"α + {ALPHA:g}", tau=best["accept/tau"] * float(better))
    (scheme,) = (scheme for scheme in sweep.schemes if best in scheme.valid)
    K = predicted_K(scheme.valid)
    if K.refined and scheme.at(K.refined) is None:  # plain decoding is measured in every cell
        gain = K.speedups[K.refined] / K.speedups[best.K] - 1
        yield Action(f"K={K.refined}", best["speed/tok_s"] * (1 + gain), gain, np.nan, np.nan, "predicted")


def _quantized(best: Row, lever: Lever) -> Action:
    """Of the lever's pass and drafts, each byte takes as long as one of the best cell's does now."""
    T, D, O = (best[f"time/{name}_ms"] for name in ("T_verify", "D", "O"))  # noqa: E741 (the field's letter)
    drafter_before, drafter = _drafter_bytes(best), lever.bytes_cycle.get("drafter", 0.0) / 1e6
    own = sum(lever.bytes_cycle.values()) / 1e6 - drafter
    T *= own / (best["bytes/cycle_MB"] - drafter_before)
    D *= drafter / drafter_before if drafter_before else 1.0
    moved = _tau_ratio(lever.same_context) / best["same/tau_ratio"] if best.K else 1.0
    name = f"{lever.component} quantized" + ", bytes alone" * bool(np.isnan(moved))
    return _prediction(best, name, C=T + D + O, tau=best["accept/tau"] * np.nan_to_num(moved, nan=1.0))


def _tau_ratio(scored: Sequence[Scored]) -> float:
    """τ along the reference's text, candidate over reference, as `same/tau_ratio`. NaN where nothing was scored."""
    chains = sum(prompt.chains for prompt in scored)
    r, c = (chains + sum(sum(getattr(its, arm).alive) for its in scored) for arm in ("reference", "candidate"))
    return c / r if chains else np.nan


def _drafter_bytes(row: Row) -> float:
    """MB of K drafts; 0 where nothing is read."""
    return float(np.nan_to_num(row["bytes/cycle_drafter_MB"]))


def _prediction(best: Row, name: str, C: float | None = None, tau: float | None = None) -> Action:
    """The best cell with another cycle time (ms) or τ."""
    gain = (tau or best["accept/tau"]) / best["accept/tau"] * best["time/C_ms"] / (C or best["time/C_ms"]) - 1
    return Action(name, best["speed/tok_s"] * (1 + gain), gain, np.nan, np.nan, "predicted")
