"""How acceptance falls along a draft, each arm on its own text and both on the reference's."""

import numpy as np
from matplotlib.figure import Figure

from acctax.analyze.sweep import Sweep
from acctax.report.pictures import style

CAPTION = (
    "Acceptance by position in the draft, of drafts whose predecessors were accepted. Filled: each arm on its own "
    "text; hollow: the overlap of draft and target, 1 − TV, of both arms on the reference's text."
)
KINDS = (("accept/conditional", "own text", "-", None), ("same/alpha_tv", "same text", ":", style.PAPER))


def draw(sweep: Sweep) -> Figure | None:
    """A panel per scheme, at its deepest K."""
    deepest = sweep.deepest("accept/conditional_1")
    if not deepest:
        return None
    figure, panels = style.facets(len(deepest), 4, 2.6, 2.2, sharey=True)
    for panel, (scheme, row) in zip(panels, deepest):
        positions = np.arange(1, row.K + 1)
        for suffix, arm, colour, marker in style.ARMS:
            for figure_name, kind, line, fill in KINDS:
                rates = np.array([row[f"{figure_name}_{i}{suffix}"] for i in positions])
                if np.isfinite(rates).any():
                    panel.plot(positions, rates, color=colour, marker=marker, linestyle=line, markerfacecolor=fill,
                               label=f"{arm}, {kind}")  # fmt: skip
        panel.set_title(scheme.label)
        panel.set_xticks(positions)
        panel.set_xlabel("position in the draft")
        panel.grid(axis="y")
    panels[0].set_ylim(0, 1.03)
    panels[0].set_ylabel("share accepted")
    style.legend(figure, panels[0])
    return figure
