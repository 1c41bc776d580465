"""What a recipe saves against what it moves: the byte win over the total variation, with the Pareto front."""

import numpy as np
from matplotlib.figure import Figure

from acctax.analyze.sweep import Sweep
from acctax.report.pictures import style

CAPTION = (
    "Byte win of a plain step against the total variation between candidate and reference on the same text, for every "
    "recipe. On the line: recipes that no other beats in both."
)


def draw(sweep: Sweep) -> Figure | None:
    """A point per scheme whose text was scored."""
    points = {scheme.label: (scheme.headline["same/tv"], scheme.headline["bytes/W"]) for scheme in sweep.schemes
              if not scheme.is_reference}  # fmt: skip
    points = {label: point for label, point in points.items() if np.isfinite(point).all()}
    if len(points) < 2:
        return None
    figure, [panel] = style.facets(1, 1, 3.6, 3.6)
    front = _front(list(points.values()))
    panel.step(*zip(*front), where="post", color=style.BLUE, linewidth=1.2, label="Pareto front")
    for label, point in points.items():
        best = point in front
        panel.plot(*point, marker="o" if best else "x", color=style.BLUE if best else style.VERMILION, linestyle="")
        panel.annotate(label, point, (5, -11), textcoords="offset points", fontsize=8)
    panel.set_xlabel("TV, candidate against reference")
    panel.set_ylabel("bytes, reference over candidate")
    panel.set_xlim(0, 1.2 * max(x for x, _ in points.values()))
    panel.grid()
    panel.legend(loc="lower right")
    return figure


def _front(points: list[tuple[float, float]]) -> list[tuple[float, float]]:
    """By TV: each saves more than every recipe that moves the model less."""
    front = []
    for tv, win in sorted(points, key=lambda point: (point[0], -point[1])):
        if not front or win > front[-1][1]:
            front.append((tv, win))
    return front
