"""What a recipe saves against what it moves: the byte win over the total variation, with the Pareto front."""

from textwrap import fill

import numpy as np
from matplotlib.figure import Figure

from acctax.analyze.sweep import Sweep
from acctax.report.pictures import labels, style

CAPTION = (
    "Byte win of a plain step against the total variation between candidate and reference on the same text, for every "
    "recipe. On the line: recipes that no other beats in both."
)
APART = ("target_quant", "drafter_quant", "draft_source", "K")  # named by itself, or without a say in the picture
LABEL = 24  # letters of a line
LINE = 0.1  # inches of the panel's height that a line needs among many


def draw(sweep: Sweep) -> Figure | None:
    """A point per recipe of the target whose text was scored."""
    points = _points(sweep)
    if len(points) < 2:
        return None
    lines = sum(label.count("\n") + 1 for label in points)
    figure, [panel] = style.facets(1, 1, 3.6, max(3.6, lines * LINE))
    front = _front(list(points.values()))
    if len(front) > 1:
        panel.step(*zip(*front), where="post", color=style.BLUE, linewidth=1.2, label="Pareto front")
    looks = (("o", style.BLUE, "on the front"), ("x", style.VERMILION, "beaten by another"))
    for marker, colour, meaning in looks:
        beaten = [point for point in points.values() if (point in front) == (marker == "o")]
        if beaten:
            panel.plot(*zip(*beaten), marker=marker, color=colour, linestyle="", label=meaning)
    panel.set_xlabel("TV, candidate against reference")
    panel.set_ylabel("bytes, reference over candidate")
    panel.set_xlim(0, 1.2 * max(x for x, _ in points.values()))
    panel.grid()
    style.legend(figure, [panel])
    steps = [(x, y) for (_, y), (x, _) in zip(front, front[1:])]
    labels.place(panel, points, sorted([*front, *steps]))
    return figure


def _points(sweep: Sweep) -> dict[str, tuple[float, float]]:
    """(TV, byte win) by name. Neither knows of the drafter: cells that differ in it alone are one point."""
    points = {}
    for row in (scheme.headline for scheme in sweep.schemes if not scheme.is_reference):
        point = row["same/tv"], row["bytes/W"]
        others = [f"{name} {value}" for name, value in row.choices.items()
                  if name not in sweep.shared and name not in APART]  # fmt: skip
        if np.isfinite(point).all() and point != (0, 1):  # that is the target as loaded
            points.setdefault(fill(", ".join([str(row.choices["target_quant"]), *others]), LABEL), point)
    return points


def _front(points: list[tuple[float, float]]) -> list[tuple[float, float]]:
    """By TV: each saves more than every recipe that moves the model less."""
    front = []
    for tv, win in sorted(points, key=lambda point: (point[0], -point[1])):
        if not front or win > front[-1][1]:
            front.append((tv, win))
    return front
