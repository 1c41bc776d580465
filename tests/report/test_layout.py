"""Nothing in a picture covers anything else, for sweeps of many sizes and names of any length."""

from dataclasses import replace

import numpy as np
import pytest
from matplotlib.colors import to_hex
from matplotlib.patches import Rectangle

from acctax.report.pictures import (
    DRAWN,
    acceptance_by_position,
    byte_win_over_tv,
    bytes_by_component,
    labels,
    style,
    tok_s_over_k,
)
from tests.analyze.simulate import REFERENCE, simulate
from tests.report.seen import collisions, overlap, words
from tests.report.sweeps import over_recipes, read, scored

LONG = " drafter nvfp4_a8_all, draft_source self:nvfp4_a8_all"
UNBROKEN = "_of_a_user_who_likes_names_without_a_single_space_in_them"


def of_K(deepest: int, **choices):
    return [scored(simulate(K, seed=K, prompts=8, **choices), 0.03) for K in range(1, deepest + 1)]


SWEEPS = {
    "one cell": lambda: of_K(1), "eight K": lambda: of_K(8),
    "noise": lambda: [simulate(K, rounds=3, noise=0.1) for K in (1, 2, 3)],
    "two recipes": lambda: over_recipes()[:3], "three long": lambda: over_recipes(longer=LONG)[:4],
    "all": lambda: over_recipes(), "all, long": lambda: over_recipes(longer=LONG),
    "four unbroken": lambda: over_recipes(longer=UNBROKEN)[:5],
    "two schemes over K": lambda: [*of_K(3, draft_source="self:nvfp4_a8_all"), *of_K(2, target_quant="int8" + LONG)],
}  # fmt: skip


@pytest.mark.parametrize("name", SWEEPS)
def test_no_words_overlap_or_leave_the_picture(name):
    sweep = read(SWEEPS[name]()).sweep
    with style.applied():
        found = {module.__name__: collisions(figure) for module in DRAWN if (figure := module.draw(sweep))}
    assert found and not any(found.values()), found


@pytest.mark.parametrize("n", [1, 2, 5, 14, 20])
@pytest.mark.parametrize("spread", [1, 0.1, 0.02])
def test_names_of_points_cover_no_point_and_no_name(n, spread):
    rng = np.random.default_rng(n)
    points = {f"nvfp4_recipe_{i}": tuple(0.5 + spread * (at - 0.5)) for i, at in enumerate(rng.random((n, 2)))}
    with style.applied():
        figure, [panel] = style.facets(1, 1, 3.6, 3.6)
        panel.set(xlim=(0, 1.2), ylim=(0, 1.2))
        labels.place(panel, points)
        assert not collisions(figure)
        boxes = [box for text, box in words(figure).items() if text.get_text() in points]
        at = panel.transData.transform(list(points.values()))
    assert len(boxes) == n
    assert not any(box.contains(*point) for box in boxes for point in at)


def test_one_point_per_recipe_whatever_drafts_for_it():
    """Neither TV nor the bytes of a plain step know of the drafter."""
    records = [scored(simulate(3, target_quant=target, drafter_quant=drafter, candidate=REFERENCE, **same), tv)
               for target, tv, same in (("bf16", 0, {}), ("nvfp4", 0.1, {}), ("int8", 0.02, {}))
               for drafter in ("none", "nvfp4_all") if (target, drafter) != ("bf16", "none")]  # fmt: skip
    with style.applied():
        figure = byte_win_over_tv.draw(read(records).sweep)
        assert {text.get_text() for text in words(figure)} >= {"nvfp4", "int8"}
        assert not {"bf16", "drafter"} & {text.get_text().split(",")[0].split()[0] for text in words(figure)}
        assert sum(len(line.get_xdata()) for line in figure.axes[0].lines if line.get_marker() in "ox") == 2


def curves(noise: float, **side):
    with style.applied():
        records = [simulate(K, seed=K, noise=noise, rounds=4, candidate=replace(REFERENCE, **side)) for K in (1, 2, 3)]
        figure = tok_s_over_k.draw(read([scored(record, 0.02) for record in records]).sweep)
    return figure, {text.get_text() for text in figure.legends[0].get_texts()}


@pytest.mark.parametrize("noise", [0.01, 0.05, 0.1])
def test_every_bar_of_tok_s_is_whole_and_clear_of_the_strips(noise):
    figure, _ = curves(noise)
    [panel] = figure.axes
    low, high = panel.get_ylim()
    ends = [y for lines in panel.collections for segment in lines.get_segments() for y in segment[:, 1]]
    assert len(ends) >= 12 and low <= min(ends) and max(ends) <= high
    strips = [box.get_window_extent() for box in panel.patches if isinstance(box, Rectangle)]
    pixels = panel.transData.transform([(0, min(ends))])[0, 1]
    assert strips and max(strip.y1 for strip in strips) < pixels


def test_the_legend_of_tok_s_has_what_is_seen_and_nothing_else():
    figure, named = curves(0.01)
    assert {"reference", "candidate", "best K", "may be the best K", "refined prediction"} <= named
    low, high = figure.axes[0].get_ylim()
    dashed = [line for line in figure.axes[0].lines if line.get_linestyle() not in ("-", "None", "none")]
    assert dashed and all(line.get_ydata().min() < high and line.get_ydata().max() > low for line in dashed)
    models = [name for name in named if name.endswith("prediction")]
    assert len(models) == len({line._unscaled_dash_pattern[1] for line in dashed})
    far, named = curves(0.01, ledger={"mlp": 1e6}, drafter=0.0)  # no byte to read: the forecast is nowhere near
    assert {line.get_color() for line in far.axes[0].lines if line.get_linestyle() == "-."} <= {style.REFERENCE}


def test_positions_have_intervals_in_the_picture():
    row = read(of_K(3)[2:]).sweep.rows[0]
    with style.applied():
        figure = acceptance_by_position.draw(read(of_K(3)[2:]).sweep)
    ends = {round(float(y), 9) for lines in figure.axes[0].collections for s in lines.get_segments() for y in s[:, 1]}
    for arm in ("", "_ref"):
        for i in (1, 2, 3):
            e = row.estimate(f"accept/conditional_{i}{arm}")
            assert e.low < e.high and {round(e.low, 9), round(e.high, 9)} <= ends


def test_the_legend_of_bytes_is_in_the_order_of_the_bars():
    with style.applied():
        figure = bytes_by_component.draw(read(of_K(2)).sweep)
    named = {text.get_text(): to_hex(patch.get_facecolor())
             for text, patch in zip(figure.legends[0].get_texts(), figure.legends[0].get_patches())}
    bars = sorted((bar for bar in figure.axes[1].patches if round(bar.get_y()) == 0 and bar.get_width()),
                  key=lambda bar: bar.get_x())
    assert list(named.values()) == [to_hex(bar.get_facecolor()) for bar in bars] and "q, k, v" in named


def test_words_are_found_to_overlap():
    """The measure itself sees a fault where there is one."""
    with style.applied():
        figure, panels = style.facets(2, 2, 2, 2)
        for panel in panels:
            panel.set_title("much too long for a panel of two inches")
        assert any("overlaps" in fault for fault in collisions(figure))
        first, second = list(words(figure).values())[:2]
    assert not overlap(first, first.translated(0, 100)) and overlap(first, first)
