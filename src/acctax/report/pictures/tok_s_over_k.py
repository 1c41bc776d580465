"""Speculative tok/s over K: measured, predicted, and every K that may be the best."""

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from acctax.analyze.sweep import Scheme, Sweep
from acctax.report.pictures import style
from acctax.report.tables.predictions import MODELS

CAPTION = (
    "Speculative tok/s over draft depth; K=0 is plain decoding. Every K is measured against plain decoding in its own "
    "job, and drawn as that speed-up times the plain tok/s of the whole sweep, so that a machine's drift between jobs "
    "bends no curve. Bars are 95 % intervals, stars the best K, strips at the foot every K that may be the best."
)
ARMS = (
    ("_ref", "reference", style.REFERENCE, style.REFERENCE_MARKER, 0.035),
    ("", "candidate", style.CANDIDATE, style.CANDIDATE_MARKER, 0.085),
)  # suffix, name, colour, marker, height of the strip in axes' heights
LINES = {"classic": (0, (1, 1)), "refined": (0, (4, 1.5)), "forecast": (0, (4, 1.5, 1, 1.5))}


def draw(sweep: Sweep) -> Figure | None:
    """A panel per scheme that was measured at several K."""
    swept = [scheme for scheme in sweep.schemes if len(scheme.valid) > 1]
    if not swept:
        return None
    figure, panels = style.facets(len(swept), 2, 4.8, 3.1, sharey=True)
    measured = []
    for panel, scheme in zip(panels, swept):
        for suffix, label, colour, marker, foot in ARMS:
            measured.extend(_arm(panel, scheme, suffix, label, colour, marker))
            _strip(panel, scheme, suffix, colour, foot)
        panel.set_title(scheme.label)
        panel.set_xlabel("drafted tokens K")
        panel.set_xticks([0, *(row.K for row in scheme.valid if row.K)])
        panel.grid(axis="y")
    low, high = min(measured), max(measured)
    room = 0.3 * (high - low) or high  # a prediction far off leaves the picture
    panels[0].set_ylim(max(low - 1.3 * room, 0), high + room)
    panels[0].set_ylabel("tok/s")
    style.legend(figure, panels[0])
    return figure


def _arm(panel: Axes, scheme: Scheme, suffix: str, label: str, colour: str, marker: str) -> list[float]:
    """The measured tok/s that it drew."""
    plain = _plain(scheme, suffix)
    rows = [row for row in scheme.valid if row.K]
    K = np.array([0, *(row.K for row in rows)]) + (0.06 if not suffix else -0.06)
    estimates = np.array([(1, 1, 1), *(row.estimate(f"speed/speedup{suffix}") for row in rows)])
    estimates = plain * np.where(np.isfinite(estimates), estimates, estimates[:, :1])
    value, low, high = estimates.T
    panel.errorbar(K, value, np.clip([value - low, high - value], 0, None), color=colour, marker=marker, capsize=2.5,
                   label=label)  # fmt: skip
    for model in MODELS:
        residual = np.array([row[f"predict/{model}_residual{suffix}"] for row in rows])
        if np.isfinite(residual).any():
            panel.plot(K[1:], value[1:] * (1 + residual), color=colour, linestyle=LINES[model], linewidth=1,
                       label=f"{label}, {model} prediction")  # fmt: skip
    best = scheme.best_K(suffix)
    if best:
        panel.plot(K[0] + best.K, plain * best.speedup, marker="*", markersize=11, color=colour, zorder=5)
    return list(value)


def _plain(scheme: Scheme, suffix: str) -> float:
    """tok/s of plain decoding over all jobs: the reference's, and the candidate's by its paired ratio to it."""
    def mean(values: list[float]) -> float:
        return float(np.exp(np.mean(np.log(values))))

    reference = mean([row["speed/tok_s_ar_ref"] for row in scheme.valid])
    if suffix:
        return reference
    return reference * mean([row["speed/tok_s_ar"] / row["speed/tok_s_ar_ref"] for row in scheme.valid])


def _strip(panel: Axes, scheme: Scheme, suffix: str, colour: str, foot: float) -> None:
    best = scheme.best_K(suffix)
    for K in best.ties if best else ():
        panel.axvspan(K - 0.45, K + 0.45, foot - 0.02, foot + 0.02, color=colour, linewidth=0, alpha=0.8)
