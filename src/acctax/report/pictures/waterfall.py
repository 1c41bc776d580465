"""The signature picture: from the bytes a candidate saves to the tokens per second it gains, loss by loss."""

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.text import Annotation
from matplotlib.ticker import MaxNLocator

from acctax.analyze.rows import Row
from acctax.analyze.sweep import Sweep
from acctax.analyze.verdicts import LOSSES, Name
from acctax.report.pictures import style, titles
from acctax.report.tables.text import signed, tax

CAPTION = (
    "From bytes to tokens, candidate over reference. The bar of bytes is what the ledger promises; each step below it "
    "takes from the win or adds to it, and the last bar is what speculative decoding gets. Numbers are 100·ln of the "
    "ratio, so that they add up; lines are 95 % intervals."
)
COLUMNS = 3
GAP = 4  # points between a bar and its number
STEPS = ("bytes promise", *LOSSES, "realized")


def draw(sweep: Sweep) -> Figure | None:
    """A panel per candidate; of several schemes the best K of each."""
    shown = _shown(sweep)
    if not shown:
        return None
    figure, panels = style.facets(len(shown), COLUMNS, 3.5, 2.35, sharex=True, sharey=True)
    for panel, (_, row) in zip(panels, shown):
        _panel(panel, row)
    for i, panel in enumerate(panels):
        panel.tick_params(axis="y", length=0, labelleft=i % COLUMNS == 0)
    figure.supxlabel("speed, candidate over reference (logarithmic; numbers in log-%)", fontsize=9)
    titles.fit(figure, panels, [f"{title}: {row.verdict.lower()}" for title, row in shown], pad=14)
    _scale(panels)
    return figure


def _shown(sweep: Sweep) -> list[tuple[str, Row]]:
    candidates = [scheme for scheme in sweep.schemes if not scheme.is_reference]
    if len(candidates) == 1:
        [scheme] = candidates
        shown = [(f"{scheme.label}, K={row.K}", row) for row in scheme.rows]
    else:
        shown = [(f"{scheme.label}, K={scheme.headline.K}", scheme.headline) for scheme in candidates]
    return [(title, row) for title, row in shown if row.verdict != Name.INVALID
            and np.isfinite([*_ends(row), row["speed/W_spec"]]).all()]


def _ends(row: Row) -> np.ndarray:
    """ln of the ratio that is left after bytes, kernels, verify width, draft and overhead, acceptance [5]."""
    return np.log(row["bytes/W"]) - np.cumsum([0, *(row[loss] for loss in LOSSES.values())])


def _panel(panel: Axes, row: Row) -> None:
    ends = _ends(row)
    realized = row.estimate("speed/W_spec")
    starts = np.array([0, *ends[:-1], 0])
    ends = np.array([*ends, np.log(realized.value)])
    intervals = [None, *(_interval(row, loss, start) for loss, start in zip(LOSSES.values(), starts[1:-1])),
                 tuple(np.log([realized.low, realized.high]))]  # fmt: skip
    panel.axvline(0, color=style.INK, linewidth=0.8, zorder=1)
    for y, (start, end, interval) in enumerate(zip(starts, ends, intervals)):
        colour, hatch = _look(y, end - start)
        panel.barh(y, end - start, left=start, height=0.62, color=colour, hatch=hatch, linewidth=0, zorder=2)
        if y < len(ends) - 1:
            panel.plot([end, end], [y, y + 1], color=style.FAINT, linewidth=0.7, linestyle=":", zorder=1)
        right = max(start, end)
        if interval and np.isfinite(interval).all():
            panel.plot(interval, [y, y], color=style.INK, linewidth=1, marker="|", markersize=5, zorder=3)
            right = max(right, *interval)
        total = f"  (×{np.exp(end):.3f})" if y in (0, len(ends) - 1) else ""
        number = panel.annotate(signed(100 * (end - start)) + total, (right, y), (GAP, 0), textcoords="offset points",
                                va="center", fontsize=8)  # fmt: skip
        number.set_in_layout(False)  # `_scale` makes room for it
    panel.set_yticks(range(len(STEPS)), labels=STEPS)
    panel.set_ylim(len(STEPS) - 0.5, -0.5)
    panel.spines["left"].set_visible(False)
    panel.grid(axis="x")
    panel.text(0, 1.02, f"tax, counted: {tax(row, 'tax/counted')}", transform=panel.transAxes, fontsize=8,
               color=style.FAINT)  # fmt: skip


def _interval(row: Row, loss: str, start: float) -> tuple[float, float]:
    e = row.estimate(loss)
    return start - e.high, start - e.low


def _look(y: int, step: float) -> tuple[str, str]:
    if y == 0:
        return style.BLUE, ""
    if y == len(STEPS) - 1:
        return style.INK, ""
    return (style.VERMILION, "////") if step < 0 else (style.GREEN, "\\\\\\\\")


def _scale(panels: list[Axes]) -> None:
    """Room for the numbers beside the bars, and ticks at round ratios. Of panels that are laid out: they share a scale.

    A number begins at x and takes a share s of its panel's width: it fits where the scale goes on to x/(1 − s).
    """
    low, high = panels[0].get_xlim()
    for panel in panels:
        for number in panel.texts:
            if isinstance(number, Annotation):
                share = (number.get_window_extent().width + GAP * panel.figure.dpi / 72) / panel.bbox.width
                high = max(high, low + (number.xy[0] - low) / (1 - share))
    if high - low > np.log(4):
        ratios = 2.0 ** np.arange(np.ceil(low / np.log(2)), np.floor(high / np.log(2)) + 1)
    else:
        ratios = MaxNLocator(5, steps=[1, 2, 2.5, 5, 10]).tick_values(np.exp(low), np.exp(high))
    ticks = {ratio: np.log(ratio) for ratio in ratios if ratio > 0 and low <= np.log(ratio) <= high}
    panels[0].set_xlim(low, high)
    panels[0].set_xticks(list(ticks.values()), labels=[f"×{ratio:g}" for ratio in ticks])
