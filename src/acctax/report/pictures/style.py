"""How pictures look: colours that every kind of eye tells apart, with markers and hatches for grey print, and SVG
whose bytes depend on the numbers alone."""

import io
import math
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import matplotlib.style
import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray

# Stand-ins: a page that shows a picture on paper of its own puts its own colours in their place (see `inline`).
INK, FAINT, RULE, PAPER = "#1b1b1f", "#6c6c72", "#dcdce1", "#fffffe"
# Okabe and Ito (2008); their yellow is left out, it does not show on white.
BLUE, VERMILION, GREEN, ORANGE, PURPLE, SKY = "#0072b2", "#d55e00", "#009e73", "#e69f00", "#cc79a7", "#56b4e9"
REFERENCE, CANDIDATE = INK, VERMILION
REFERENCE_MARKER, CANDIDATE_MARKER = "s", "o"
ARMS = (("_ref", "reference", REFERENCE, REFERENCE_MARKER), ("", "candidate", CANDIDATE, CANDIDATE_MARKER))

_RULES = {
    "figure.facecolor": PAPER, "axes.facecolor": "none", "savefig.facecolor": PAPER,
    "text.color": INK, "axes.labelcolor": INK, "axes.titlecolor": INK, "xtick.labelcolor": INK, "ytick.labelcolor": INK,
    "axes.edgecolor": FAINT, "xtick.color": FAINT, "ytick.color": FAINT, "grid.color": RULE, "hatch.color": PAPER,
    "legend.labelcolor": INK, "legend.frameon": False,
    "font.size": 9, "axes.titlesize": 9, "axes.titleweight": "bold", "axes.titlelocation": "left",
    "grid.linewidth": 0.6, "axes.axisbelow": True, "axes.spines.top": False, "axes.spines.right": False,
    "lines.markersize": 4.5, "lines.linewidth": 1.3, "hatch.linewidth": 0.9,
    "svg.hashsalt": "acctax", "svg.fonttype": "path",
}  # fmt: skip


@contextmanager
def applied() -> Iterator[None]:
    """Whatever a user's own matplotlibrc says."""
    with matplotlib.style.context(["default", _RULES]):
        yield


def svg(figure: Figure) -> str:
    """The figure's SVG, without what changes from run to run or means nothing outside a file of its own."""
    text = io.StringIO()
    figure.savefig(text, format="svg")
    described = re.sub(r" *<metadata>.*?</metadata>\n", "", text.getvalue(), flags=re.DOTALL)  # date and version
    return re.sub(r' id="[a-z0-9.]+_\d+"', "", described)


def inline(text: str) -> str:
    """A picture's SVG as part of an HTML page, in the page's colours."""
    text = text[text.index("<svg"):]
    for stand_in, variable in ((INK, "ink"), (FAINT, "faint"), (RULE, "rule"), (PAPER, "paper")):
        text = text.replace(stand_in, f"var(--{variable})")
    return text


def errors(panel: Axes, x: NDArray[np.float64], estimates: NDArray[np.float64], **look: object) -> None:
    """Points and bars of estimates [n, 3]: value, low, high; no bar where there is no interval."""
    value = estimates[:, :1]
    _, low, high = np.where(np.isfinite(estimates), estimates, value).T
    bars = np.clip([value[:, 0] - low, high - value[:, 0]], 0, None)
    panel.errorbar(x, value[:, 0], bars, capsize=2, elinewidth=0.9, capthick=0.9, **look)


def facets(n: int, columns: int, width: float, height: float, **shared: bool) -> tuple[Figure, list[Axes]]:
    """A figure of n panels, `width` by `height` inches each, in rows of at most `columns`."""
    columns = min(n, columns)
    rows = math.ceil(n / columns)
    figure = Figure(figsize=(max(columns, 2) * width, rows * height + 0.5), layout="constrained")
    grid = figure.subplots(rows, columns, squeeze=False, **shared)
    panels = list(grid.flat)
    for panel in panels[n:]:
        panel.set_axis_off()
    for i in range(max(0, n - columns), n):  # the lowest panel of each column
        panels[i].xaxis.set_tick_params(labelbottom=True)
    return figure, panels[:n]


def legend(figure: Figure, panels: Sequence[Axes], more: Sequence[Artist] = (), columns: int | None = None) -> None:
    """Below all panels, of whatever any of them shows, in the order it was drawn; more: what none of them names."""
    named = {}
    for panel in panels:
        for handle, label in zip(*panel.get_legend_handles_labels()):
            named.setdefault(label, handle)
    named |= {artist.get_label(): artist for artist in more}
    columns = columns or (4 if figure.get_figwidth() > 7 else 2)
    figure.legend(named.values(), named.keys(), loc="outside lower center", ncols=columns)
