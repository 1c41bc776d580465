"""Speculative tok/s over K: measured, predicted, and every K that may be the best."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator
from numpy.typing import NDArray

from acctax.analyze.best_k import BestK
from acctax.analyze.sweep import Scheme, Sweep
from acctax.report.pictures import style, titles
from acctax.report.tables.predictions import MODELS

CAPTION = (
    "Speculative tok/s over draft depth; K=0 is plain decoding. Every K is measured against plain decoding in its own "
    "job, and drawn as that speed-up times the plain tok/s of the whole sweep, so that a machine's drift between jobs "
    "bends no curve. Bars are 95 % intervals. A prediction so far off that it lies outside the picture is left out."
)
LINES = {"classic": (0, (1, 1)), "refined": (0, (4, 1.5)), "forecast": (0, (4, 1.5, 1, 1.5))}
ASIDE = 0.06  # of a K, so that no bar hides another
FEET = {"_ref": 0.035, "": 0.085}  # height of the strips of K that may be the best, in axes' heights
FOOT = 0.12  # what they take


@dataclass(frozen=True)
class Curve:
    """One arm of one scheme, in tok/s."""

    K: NDArray[np.int64]  # [n], 0 first
    measured: NDArray[np.float64]  # [n, 3]: value, low, high
    predicted: dict[str, NDArray[np.float64]]  # by model, over K above 0 [n−1]
    best: BestK
    plain: float


def draw(sweep: Sweep) -> Figure | None:
    """A panel per scheme that was measured at several K."""
    swept = [scheme for scheme in sweep.schemes if len(scheme.valid) > 1]
    if not swept:
        return None
    figure, panels = style.facets(len(swept), 2, 4.8, 3.1, sharey=True)
    curves = [{suffix: _curve(scheme, suffix) for suffix in FEET} for scheme in swept]
    low, high = _limits([curve for arms in curves for curve in arms.values()])
    shown = set()
    for panel, arms in zip(panels, curves):
        for suffix, label, colour, marker in style.ARMS:
            curve, aside = arms[suffix], -ASIDE if suffix else ASIDE
            style.errors(panel, curve.K + aside, curve.measured, color=colour, marker=marker, label=label)
            _best(panel, curve, aside, FEET[suffix], colour)
            for model, tok_s in curve.predicted.items():
                if np.nanmin(tok_s) < high and np.nanmax(tok_s) > low:
                    shown.add(model)
                    panel.plot(curve.K[1:], tok_s, color=colour, linestyle=LINES[model], linewidth=1)
        panel.set_xlabel("drafted tokens K")
        panel.set_xticks(arms[""].K)
        panel.set_xlim(-0.6, max(arms[""].K) + 0.6)
        panel.grid(axis="y")
    panels[0].set_yticks([tok_s for tok_s in MaxNLocator(6).tick_values(low, high) if 0 <= tok_s <= high])
    panels[0].set_ylim(low, high)
    panels[0].set_ylabel("tok/s")
    style.legend(figure, panels, _alike([model for model in LINES if model in shown]))
    titles.fit(figure, panels, [scheme.label for scheme in swept])
    return figure


def _curve(scheme: Scheme, suffix: str) -> Curve:
    plain = _plain(scheme, suffix)
    rows = [row for row in scheme.valid if row.K]
    measured = plain * np.array([(1, 1, 1), *(row.estimate(f"speed/speedup{suffix}") for row in rows)])
    predicted = {}
    for model in MODELS:
        residual = np.array([row[f"predict/{model}_residual{suffix}"] for row in rows])
        if np.isfinite(residual).any():
            predicted[model] = measured[1:, 0] * (1 + residual)
    return Curve(np.array([0, *(row.K for row in rows)]), measured, predicted, scheme.best_K(suffix), plain)


def _limits(curves: list[Curve]) -> tuple[float, float]:
    """All that was measured with its bars, some room for predictions, and the strips below."""
    measured = np.concatenate([curve.measured.ravel() for curve in curves])
    low, high = min(measured[np.isfinite(measured)]), max(measured[np.isfinite(measured)])
    room = 0.15 * (high - low) or 0.5 * high
    high += room
    return max(low - 0.2 * (high - low), -FOOT / (1 - FOOT) * high), high


def _plain(scheme: Scheme, suffix: str) -> float:
    """tok/s of plain decoding over all jobs: the reference's, and the candidate's by its paired ratio to it."""
    def mean(values: list[float]) -> float:
        return float(np.exp(np.mean(np.log(values))))

    reference = mean([row["speed/tok_s_ar_ref"] for row in scheme.valid])
    if suffix:
        return reference
    return reference * mean([row["speed/tok_s_ar"] / row["speed/tok_s_ar_ref"] for row in scheme.valid])


def _best(panel: Axes, curve: Curve, aside: float, foot: float, colour: str) -> None:
    """A star at the best K, and a strip at the foot under every K that may be it."""
    panel.plot(curve.best.K + aside, curve.plain * curve.best.speedup, marker="*", markersize=11, color=colour,
               linestyle="", zorder=5)  # fmt: skip
    for K in curve.best.ties:
        panel.axvspan(K - 0.45, K + 0.45, foot - 0.02, foot + 0.02, color=colour, linewidth=0, alpha=0.8)


def _alike(models: Sequence[str]) -> list[Line2D]:
    """What looks alike in both arms but for the colour."""
    strip = Line2D([], [], color=style.FAINT, linewidth=5, alpha=0.8, solid_capstyle="butt", label="may be the best K")
    star = Line2D([], [], color=style.FAINT, linestyle="", marker="*", markersize=11, label="best K")
    return [star, strip, *(Line2D([], [], color=style.FAINT, linewidth=1, linestyle=LINES[model],
                                  label=f"{model} prediction") for model in models)]  # fmt: skip
