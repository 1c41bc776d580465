import re
import xml.etree.ElementTree as ElementTree
from dataclasses import replace

import matplotlib
import numpy as np
import pytest

from acctax.analyze import sweep
from acctax.record import Round
from acctax.report import pictures
from acctax.report.pictures import byte_win_over_tv, bytes_by_component, style, tok_s_over_k, waterfall
from tests.report.sweeps import over_K, over_schemes, read, scored

ALL = {"waterfall", "tok_s_over_k", "acceptance_by_position", "byte_win_over_tv", "forward_time", "bytes_by_component"}


def drawn(records) -> dict[str, pictures.Picture]:
    return pictures.draw(read(records).sweep)


def test_each_has_what_it_needs_or_is_left_out():
    with_text = [scored(r, 0.01 * i) for i, r in enumerate(over_schemes() + over_K(), 1)]
    assert set(drawn(with_text)) == ALL
    assert set(drawn(over_K())) == ALL - {"byte_win_over_tv"}
    assert set(drawn(over_schemes()[:2])) == ALL - {"byte_win_over_tv", "tok_s_over_k"}
    assert not drawn(over_schemes()[3:4])  # an invalid cell has no figure


def test_a_figure_without_a_value_leaves_its_panel_out():
    first, second = read(over_schemes()[:2]).sweep.rows
    for missing in ("tax/ln_kernels", "speed/W_spec"):
        holed = replace(first, figures=replace(first.figures, values={**first.figures.values, missing: np.nan}))
        with style.applied():
            assert len(waterfall.draw(sweep([holed, second])).axes) == 1
            assert waterfall.draw(sweep([holed])) is None


def test_bytes_depend_on_the_rows_alone():
    first = drawn(over_K())
    with matplotlib.rc_context({"font.size": 20, "svg.hashsalt": None, "lines.linewidth": 9, "axes.grid": True}):
        second = drawn(over_K())
    assert first == second
    for picture in first.values():
        assert "dc:date" not in picture.svg and "matplotlib" not in picture.svg.lower()
        ElementTree.fromstring(picture.svg)


@pytest.mark.parametrize("name", sorted(ALL - {"byte_win_over_tv"}))
def test_a_file_of_its_own_is_ink_on_paper(name):
    svg = drawn(over_K())[name].svg
    assert style.PAPER in svg and style.INK in svg and "var(" not in svg
    assert "var(--ink)" in style.inline(svg) and not re.search("#1b1b1f|<!DOCTYPE", style.inline(svg))


def test_the_waterfall_ends_where_it_is_realized():
    [row] = read(over_K()[:1]).sweep.rows
    with style.applied():
        [panel] = waterfall.draw(sweep([row])).axes
    bars = panel.patches
    assert bars[0].get_width() == pytest.approx(np.log(row["bytes/W"]))
    assert bars[-1].get_width() == pytest.approx(np.log(row["speed/W_spec"]))
    assert bars[-2].get_x() + bars[-2].get_width() == pytest.approx(bars[-1].get_width())  # acceptance comes last
    for before, after in zip(bars, bars[1:-1]):
        assert after.get_x() == pytest.approx(before.get_x() + before.get_width())


def test_bars_of_bytes_end_at_the_ledgers_total():
    [row] = read(over_K()[2:3]).sweep.rows
    with style.applied():
        panels = bytes_by_component.draw(sweep([row])).axes
    for panel, total in zip(panels, ("bytes/token_MB", "bytes/cycle_MB")):
        for y, arm in ((0, "_ref"), (1, "")):
            ends = [bar.get_x() + bar.get_width() for bar in panel.patches if round(bar.get_y()) == y]
            assert max(ends) == pytest.approx(row[f"{total}{arm}"])


def test_drift_between_jobs_bends_no_curve():
    curves = []
    for drift in (0, 1):
        records = [replace(record, reference=slower(record.reference, 1 + drift * i),
                           candidate=slower(record.candidate, 1 + drift * i)) for i, record in enumerate(over_K())]
        with style.applied():
            [panel] = tok_s_over_k.draw(read(records).sweep).axes
        curves.append([line.get_ydata() for line in panel.lines if len(line.get_ydata()) == 7][0])
    assert np.allclose(curves[0] / curves[0][0], curves[1] / curves[1][0])


def slower(arm, factor: float):
    rounds = [Round({M: t * factor for M, t in r.T.items()}, r.D * factor, r.C * factor, r.C_ar * factor)
              for r in arm.rounds]
    return replace(arm, rounds=rounds, prompts=[replace(p, seconds=p.seconds * factor) for p in arm.prompts])


def test_the_pareto_front_has_what_no_other_beats_in_both():
    points = [(0.1, 1.5), (0.02, 1.1), (0.05, 1.5), (0.05, 1.3), (0.2, 3.0), (0.01, 1.0), (0.3, 2.9)]
    assert byte_win_over_tv._front(points) == [(0.01, 1.0), (0.02, 1.1), (0.05, 1.5), (0.2, 3.0)]
