"""What can be seen of a picture: the boxes of the words that are drawn, in pixels."""

import io
from itertools import combinations

import pytest
from matplotlib.figure import Figure
from matplotlib.text import Text
from matplotlib.transforms import Bbox

TOUCH = 0.5  # pixels that two boxes may share, or stand outside the picture


def words(figure: Figure) -> dict[Text, Bbox]:
    """Those that are drawn, ticks outside a panel's limits are not."""
    drawn: dict[Text, Bbox] = {}
    draw = Text.draw

    def record(text: Text, renderer, *rest) -> None:
        if text.get_visible() and text.get_text().strip():
            drawn[text] = Text.get_window_extent(text, renderer)
        draw(text, renderer, *rest)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Text, "draw", record)
        figure.savefig(io.BytesIO(), format="png", dpi=figure.dpi)
    return drawn


def overlap(a: Bbox, b: Bbox) -> bool:
    return min(a.x1, b.x1) - max(a.x0, b.x0) > TOUCH and min(a.y1, b.y1) - max(a.y0, b.y0) > TOUCH


def collisions(figure: Figure) -> list[str]:
    """Words that overlap others, or stand partly outside the picture."""
    drawn = words(figure)
    paper = figure.bbox
    outside = [f"{text.get_text()!r} leaves the picture" for text, box in drawn.items()
               if min(box.x0 - paper.x0, box.y0 - paper.y0, paper.x1 - box.x1, paper.y1 - box.y1) < -TOUCH]
    return outside + [f"{a.get_text()!r} overlaps {b.get_text()!r}" for a, b in combinations(drawn, 2)
                      if overlap(drawn[a], drawn[b])]
