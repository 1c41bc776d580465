"""How acceptance falls along a draft, each arm on its own text and both on the reference's."""

import numpy as np
from matplotlib.figure import Figure

from acctax.analyze.sweep import Sweep
from acctax.report.pictures import style, titles

CAPTION = (
    "Acceptance by position in the draft, of drafts whose predecessors were accepted. Filled: each arm on its own "
    "text; hollow: the overlap of draft and target, 1 − TV, of both arms on the reference's text. Bars are 95 % "
    "intervals."
)
KINDS = (("accept/conditional", "own text", "-", None), ("same/alpha_tv", "same text", ":", style.PAPER))
ASIDE = 0.09  # positions between neighbours, so that no bar hides another


def draw(sweep: Sweep) -> Figure | None:
    """A panel per scheme, at its deepest K."""
    deepest = sweep.deepest("accept/conditional_1")
    if not deepest:
        return None
    figure, panels = style.facets(len(deepest), 4, 2.6, 2.2, sharey=True)
    for panel, (_, row) in zip(panels, deepest):
        positions = np.arange(1, row.K + 1)
        for n, (suffix, arm, colour, marker) in enumerate(style.ARMS):
            for m, (figure_name, kind, line, fill) in enumerate(KINDS):
                rates = np.array([row.estimate(f"{figure_name}_{i}{suffix}") for i in positions])  # [K, 3]
                if np.isfinite(rates[:, 0]).any():
                    style.errors(panel, positions + ASIDE * (2 * m + n - 1.5), rates, color=colour, marker=marker,
                                 linestyle=line, markerfacecolor=fill, label=f"{arm}, {kind}")  # fmt: skip
        panel.set_xticks(positions)
        panel.set_xlim(0.5, row.K + 0.5)
        panel.set_xlabel("position in the draft")
        panel.grid(axis="y")
    panels[0].set_ylim(0, 1.03)
    panels[0].set_ylabel("share accepted")
    style.legend(figure, panels)
    titles.fit(figure, panels, [scheme.label for scheme, _ in deepest])
    return figure
