"""What more rows cost a target pass, against the time that reading its bytes would take."""

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from acctax.analyze.rows import Row
from acctax.analyze.sweep import Sweep
from acctax.report.pictures import style, titles

CAPTION = (
    "A target pass over M rows, T(M)/T(1). Dashed: the roofline, its bytes at the read bandwidth of the same run. The "
    "distance from it at M=1 is the kernels' loss, the rise to the right the verify width's."
)


def draw(sweep: Sweep) -> Figure | None:
    """A panel per scheme, from its deepest K, whose passes had most rows."""
    deepest = sweep.deepest("time/T_1_ms")
    if not deepest:
        return None
    figure, panels = style.facets(len(deepest), 4, 2.6, 2.2, sharey=True)
    for panel, (_, row) in zip(panels, deepest):
        for arm in style.ARMS:
            _passes(panel, row, *arm)
        for suffix, arm, colour, _ in style.ARMS:
            roofline = row[f"time/roofline_ms{suffix}"] / row[f"time/T_1_ms{suffix}"]
            panel.axhline(roofline, color=colour, linestyle="--", linewidth=1, label=f"{arm}, roofline")
        panel.set_xticks(range(1, row.K + 2))
        panel.set_xlim(0.7, row.K + 1.3)
        panel.set_xlabel("rows M of a pass")
        panel.grid(axis="y")
    panels[0].set_ylim(0, 1.05 * panels[0].get_ylim()[1])
    panels[0].set_ylabel("T(M) / T(1)")
    style.legend(figure, panels)
    titles.fit(figure, panels, [scheme.label for scheme, _ in deepest])
    return figure


def _passes(panel: Axes, row: Row, suffix: str, label: str, colour: str, marker: str) -> None:
    M = np.arange(1, row.K + 2)
    T = np.array([row[f"time/T_{rows}_ms{suffix}"] for rows in M])
    panel.plot(M, T / T[0], color=colour, marker=marker, label=label)
