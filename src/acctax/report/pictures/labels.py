"""Names beside the points of a scatter, where they cover neither each other nor a point."""

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes
from numpy.typing import NDArray

from acctax.report.pictures import style

SIZE = 8  # of the letters, in points
NEAR, STEP = 7, 5  # from a point to its name, and how much farther the next try is, in points
MARKER = 4.5  # half a point's own square, some air included
ANGLES = np.deg2rad([-45, 0, 45, 135, 180, -135, 90, -90, *range(-75, 91, 30), *range(105, 256, 30)])
# What a name should not do, worst first, against its distance from the point in points: leave the panel, cover another
# name or a point, cross the way of another to its point, cover the path.
LEAVES, COVERS, CROSSES, HIDES = 1e6, 1e4, 400, 50

Boxes = NDArray[np.float64]  # [n, 4]: left, bottom, right, top
Points = NDArray[np.float64]  # [n, 2]


def place(panel: Axes, points: Mapping[str, tuple[float, float]], line: Sequence[tuple[float, float]] = ()) -> None:
    """Write each name near its point (data), with a thin line to it where that is not next to it.

    line: a path (data) that names should not cover. All that takes room around the panel must be there: the figure is
    laid out here for good.
    """
    panel.autoscale(False)
    panel.figure.draw_without_rendering()
    panel.figure.set_layout_engine("none")
    unit = panel.figure.dpi / 72  # pixels of a point
    inside = np.array(panel.bbox.extents) / unit
    at = panel.transData.transform(list(points.values())) / unit
    path = _along(panel.transData.transform(line) / unit) if len(line) else np.empty((0, 2))
    markers = np.hstack([at - MARKER, at + MARKER])
    named: Boxes = np.empty((0, 4))
    ways: Points = np.empty((0, 2))
    texts = list(points)
    for i in _crowded_first(at):
        label = panel.annotate(texts[i], points[texts[i]], fontsize=SIZE, annotation_clip=False)
        extent = label.get_window_extent()
        boxes, ties = _tries(at[i], extent.width / unit + 3, extent.height / unit + 2, np.ptp(inside[::2]))
        others = np.delete(markers, i, 0)
        cost = COVERS * (_overlaps(boxes, named) + _overlaps(boxes, markers))
        cost += LEAVES * ((boxes[:, :2] < inside[:2]) | (boxes[:, 2:] > inside[2:])).any(1)
        cost += CROSSES * (_covers(boxes, ways) + _hits(ties, named) + _hits(ties, others))
        cost += HIDES * _covers(boxes, path)
        best = int(np.argmin(cost + _distance(at[i], boxes)))
        box, tie = boxes[best], ties[best]
        label.set(position=(box[:2] + box[2:]) / 2 - at[i], ha="center", va="center")
        label.set_anncoords("offset points")
        named = np.vstack([named, box])
        if np.hypot(*(tie[-1] - tie[0])) > NEAR + STEP:
            ends = panel.transData.inverted().transform(tie[[0, -1]] * unit)
            panel.plot(*ends.T, color=style.FAINT, linewidth=0.6, zorder=1)
            ways = np.vstack([ways, tie])


def _crowded_first(at: Points) -> NDArray[np.int64]:
    apart = np.hypot(*(at[:, None] - at[None]).T)
    return np.argsort(-(apart < 40).sum(0), kind="stable")


def _tries(point: Points, width: float, height: float, reach: float) -> tuple[Boxes, NDArray[np.float64]]:
    """Boxes around a point from near to far, and of each the way to it from the point [n, 12, 2]."""
    distance = np.arange(NEAR, reach, STEP)
    way = np.stack([np.cos(ANGLES), np.sin(ANGLES)], -1)
    nearest = point + (distance[:, None, None] * way).reshape(-1, 2)
    side = np.tile(np.where(np.abs(way) > 0.4, np.sign(way), 0), (len(distance), 1))
    centre = nearest + side * np.array([width, height]) / 2
    half = np.array([width, height]) / 2
    ties = point + np.linspace(0, 1, 12)[:, None] * (nearest - point)[:, None]
    return np.hstack([centre - half, centre + half]), ties


def _distance(point: Points, boxes: Boxes) -> NDArray[np.float64]:
    return np.hypot(*(np.clip(point, boxes[:, :2], boxes[:, 2:]) - point).T)


def _overlaps(boxes: Boxes, others: Boxes) -> NDArray[np.int64]:
    """How many of the others each box overlaps [n]."""
    low = np.maximum(boxes[:, None, :2], others[None, :, :2])
    high = np.minimum(boxes[:, None, 2:], others[None, :, 2:])
    return (low < high).all(-1).sum(1)


def _covers(boxes: Boxes, points: Points) -> NDArray[np.bool_]:
    """Does a box have any of the points in it? [n]"""
    return ((points >= boxes[:, None, :2]) & (points <= boxes[:, None, 2:])).all(-1).any(1)


def _hits(ties: NDArray[np.float64], boxes: Boxes) -> NDArray[np.int64]:
    """How many of the boxes the way of each try runs through [n]."""
    through = (ties[:, :, None] >= boxes[:, :2]) & (ties[:, :, None] <= boxes[:, 2:])
    return through.all(-1).any(1).sum(1)


def _along(corners: Points) -> Points:
    """Points along a path, close enough that no name fits between."""
    length = np.hypot(*np.diff(corners, axis=0).T)
    pieces = [np.linspace(a, b, int(n / 3) + 2) for a, b, n in zip(corners, corners[1:], length)]
    return np.concatenate(pieces) if pieces else corners
