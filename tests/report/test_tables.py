"""The tables say what the rows say."""

import re
from dataclasses import replace

import numpy as np
import pytest

from acctax.analyze.actions import Action
from acctax.analyze.interaction import interactions
from acctax.report import tables
from acctax.report.summary import headlines
from tests.analyze.simulate import REFERENCE, simulate
from tests.report.sweeps import FAILURE, over_K, over_schemes, read, scored


def value(cell: str) -> float:
    return float(cell.split()[0].replace("−", "-"))


def test_every_table_over_K_has_a_row_per_K():
    sweep = read(over_K()).sweep
    for build in (tables.wins, tables.taxes, tables.waterfall, tables.timing, tables.predictions, tables.rejected):
        table = build(sweep)
        assert [row[0] for row in table.rows] == [f"K={K}" for K in range(1, 7)]
        assert all(len(row) == len(table.header) for row in table.rows)
    assert len(list(tables.best_K(sweep).rows)) == 1


def test_cells_are_the_rows_figures():
    sweep = read(over_K()).sweep
    taxes, wins, predicted = (list(build(sweep).rows) for build in (tables.taxes, tables.wins, tables.predictions))
    for i, row in enumerate(sweep.rows):
        assert value(taxes[i][1]) == pytest.approx(row["accept/tau_ratio"], abs=6e-5)
        assert value(taxes[i][2]) == pytest.approx(100 * row["tax/potential"], abs=6e-3)
        assert value(taxes[i][3]) == pytest.approx(100 * row["tax/realized"], abs=6e-3)
        assert value(taxes[i][6]) == pytest.approx(100 * row["tax/counted"], abs=6e-2)
        assert value(wins[i][3]) == pytest.approx(row["speed/W_spec"], abs=6e-4)
        assert value(predicted[i][1]) == pytest.approx(row["speed/tok_s"], abs=6e-2)


def test_a_waterfall_row_adds_up():
    for row in tables.waterfall(read(over_K()).sweep).rows:
        *steps, realized = map(value, row[1:])
        assert sum(steps) == pytest.approx(realized, abs=0.31)  # each is rounded to 0.1


def test_bonus_undefined_and_invalid_are_plain():
    sweep = read(over_schemes()).sweep
    wins = {row[0]: row for row in tables.wins(sweep).rows}
    assert wins["nvfp4 K=3"][4].startswith("−") and wins["nvfp4 K=3"][5] == "ACCEPT"
    assert wins["bf16 K=3"][4:] == ("—", "REFERENCE")
    assert wins["nvfp4_lm_head K=3"][1:] == ("—", "—", "—", "—", "INVALID")
    assert wins["fp32 K=3"][4] == "—"
    assert wins["int8 K=0"][4] == "0 % [0, 0]"


def test_rejected_cells_come_with_hardware_where_it_differs():
    records = over_K()[:2]
    other = replace(records[1], environment=records[1].environment | {"hardware": "another CPU"})
    assert "hardware" not in tables.rejected(read(records).sweep).header
    table = tables.rejected(read([records[0], other]).sweep)
    assert [row[-1] for row in table.rows] == ["Simulated CPU, 2 threads", "another CPU"]


def test_same_context_stands_beside_free_running():
    first, second = over_K()[2:4]
    table = tables.same_context(read([scored(first, 0.05), second]).sweep)
    [row] = table.rows  # what was not scored has none
    assert row[0] == "K=3" and row[4] == "0.970 → 0.900" and row[7] == "90.0 %" and row[3] in ("yes", "no")
    assert value(row[5]) == pytest.approx(0.05 * (1 + 0.02 * 11.5), abs=1e-4)
    assert tables.same_context(read([second]).sweep) is None


def test_actions_say_what_they_gain_and_how_that_is_known():
    actions = [
        Action("no overhead", 110.0, np.float64(0.1), np.nan, np.nan, "bound"),
        Action("int8, K=2", 99.96, np.float64(-0.0004), np.float64(-0.01), np.float64(0.01), "measured"),
        Action("o quantized", 90.0, np.float64(-0.1), np.nan, np.nan, "predicted"),
        Action("int4, K=2", 80.0, np.float64(-0.2), np.float64(-0.3), np.float64(-0.1), "measured"),
        Action("nf4, K=2", 70.0, np.float64(-0.3), np.nan, np.nan, "measured"),  # of one round
    ]
    assert list(tables.next_actions(actions).rows) == [
        ("no overhead", "110.0", "+10.0 %", "—", "bound"),
        ("int8, K=2", "100.0", "0.0 %", "−1.0 % to +1.0 %", "measured, undecided"),
        ("o quantized", "90.0", "−10.0 %", "—", "predicted, rejected"),
        ("int4, K=2", "80.0", "−20.0 %", "−30.0 % to −10.0 %", "measured, rejected"),
        ("nf4, K=2", "70.0", "−30.0 %", "—", "measured, undecided"),
    ]
    assert tables.next_actions([]) is None


def test_best_K_and_interaction_are_those_of_the_analysis():
    sweep = read(over_K()).sweep
    [row] = tables.best_K(sweep).rows
    tuning = sweep.schemes[0].tuning()
    assert row[1].split()[0] == str(tuning.reference.K) and row[2].split()[0] == str(tuning.candidate.K)
    assert value(row[-1]) == pytest.approx(tuning.stale_tok_s, abs=6e-2)
    quants = [("bf16", "int4"), ("nvfp4_qkv", "none"), ("nvfp4_qkv", "int4")]
    crossed = read([simulate(3, target_quant=target, drafter_quant=drafter) for target, drafter in quants]).sweep
    [row] = tables.interaction(crossed).rows
    [its] = interactions(crossed)
    assert row[:3] == ("nvfp4_qkv", "int4", "3") and value(row[-1]) == pytest.approx(100 * its.beyond.value, abs=6e-2)
    assert tables.interaction(sweep) is None


def test_a_K_that_did_not_move_is_not_stale():
    same = [simulate(K, seed=K, candidate=replace(REFERENCE, T1=11e-3)) for K in (1, 2, 3)]
    sweep = read(same).sweep
    tuning = sweep.schemes[0].tuning()
    [row] = tables.best_K(sweep).rows
    assert tuning.moved is False and row[5] == "no" and row[-2:] == ("—", "—")


def test_failed_cells_are_listed():
    assert list(tables.failed([FAILURE]).rows) == [("int4 K=3", "MemoryError: no room for it")]
    assert tables.failed([]) is None


def test_a_quantized_drafter_alone_has_its_bytes_explained():
    cheaper = replace(REFERENCE, drafter=60e6, draft=4e-3)
    note = tables.waterfall(read([simulate(3, candidate=cheaper, drafter_quant="nvfp4")]).sweep).note
    assert note.endswith("what its bytes save is a gain of draft and overhead.")
    assert "drafter" not in tables.waterfall(read(over_K()).sweep).note


def test_every_K_has_its_verdict_in_the_headline():
    sweep = read(over_K()).sweep
    [headline] = headlines(sweep)
    said = dict(part.split(" at K=") for part in re.findall(r"[A-Z]{5,} at K=[\d, ]*\d", headline.speeds))
    rows = sweep.schemes[0].rows
    assert {int(K): name for name, Ks in said.items() for K in Ks.split(", ")} == {row.K: row.verdict for row in rows}
