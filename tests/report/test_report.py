import csv
import io
import math
from dataclasses import replace

import pytest
from rich.console import Console

from acctax import report
from acctax.analyze import Rules
from acctax.config import Verdict
from acctax.errors import ConfigError
from acctax.report import markdown, spreadsheet, tables
from acctax.report.__main__ import main
from acctax.report.summary import headlines, notes
from acctax.report.terminal import print_sweep
from tests.analyze.simulate import LEDGER, NVFP4, REFERENCE, simulate

RULES = Rules(resamples=300)
BONUS = replace(REFERENCE, alpha=0.99, T1=9e-3, ledger={name: size * NVFP4 for name, size in LEDGER.items()})


def over_K():
    return [simulate(K, seed=K) for K in range(1, 7)]


def over_schemes():
    broken = simulate(3, target_quant="nvfp4_lm_head")
    return [
        simulate(3, target_quant="nvfp4_qkv"),
        simulate(3, reference=replace(REFERENCE, alpha=0.8), candidate=BONUS, target_quant="nvfp4"),
        simulate(3, candidate=REFERENCE, is_reference=True),
        replace(broken, candidate=replace(broken.candidate, rounds=[])),
        simulate(3, candidate=replace(REFERENCE, T1=14e-3), target_quant="fp32"),  # no byte fewer
        simulate(0, target_quant="int8"),
    ]


def text(records, width=120):
    out = io.StringIO()
    print_sweep(report.read(records, RULES), Console(file=out, width=width))
    return out.getvalue()


@pytest.mark.parametrize("records", [over_K(), over_schemes(), over_schemes()[:2], over_K()[:1]])
def test_a_file_gets_120_plain_columns(records):
    page = text(records, width=80)
    assert max(map(len, page.splitlines())) <= 120
    assert "…" not in page.replace("draft_source.recipe=…", "")  # no cell of a table was cut
    assert "\x1b" not in page and all(line == line.rstrip() for line in page.splitlines())


def test_the_verdict_comes_first():
    lines = text(over_K()).splitlines()
    assert "smollm2_135m · self:int8_all" in lines[0]
    assert lines[2].startswith("REJECT") and "acceptance ate" in lines[2]


def test_colour_is_for_verdicts_alone():
    out = io.StringIO()
    print_sweep(
        report.read(over_K(), RULES),
        Console(file=out, width=120, force_terminal=True, color_system="standard"),
    )
    for piece in out.getvalue().split("\x1b[")[1:]:
        style, _, words = piece.partition("m")
        if {"31", "32", "33", "35", "36"} & set(style.split(";")):
            assert words.strip() == "REJECT"


def test_every_table_over_K_has_a_row_per_K():
    sweep = report.read(over_K(), RULES)
    for table in (tables.wins(sweep), tables.waterfall(sweep), tables.timing(sweep)):
        assert [row[0] for row in table.rows] == [f"K={K}" for K in range(1, 7)]
        assert all(len(row) == len(table.header) for row in table.rows)
    assert [row[0] for row in tables.rejected(sweep).rows] == [f"K={K}" for K in range(1, 7)]
    assert len(list(tables.best_K(sweep).rows)) == 1


def test_a_waterfall_row_adds_up():
    sweep = report.read(over_K(), RULES)
    for row in tables.waterfall(sweep).rows:
        *steps, realized = (float(cell.replace("−", "-")) for cell in row[1:])
        assert sum(steps) == pytest.approx(realized, abs=0.31)  # each is rounded to 0.1


def test_bonus_undefined_and_invalid_are_plain():
    sweep = report.read(over_schemes(), RULES)
    wins = {row[0]: row for row in tables.wins(sweep).rows}
    assert wins["nvfp4 K=3"][4].startswith("bonus") and wins["nvfp4 K=3"][6] == "ACCEPT"
    assert wins["bf16 K=3"][4:] == ("—", "—", "reference")
    assert wins["nvfp4_lm_head K=3"][1:] == ("—", "—", "—", "—", "—", "INVALID")
    assert wins["fp32 K=3"][4] == "—"
    assert wins["int8 K=0"][4] == "0 % [0, 0]"
    reasons = {headline.title: headline.reason for headline in headlines(sweep)}
    assert "no win even at equal acceptance" in reasons["fp32 K=3"]


def test_rejected_cells_come_with_hardware_where_it_differs():
    records = over_K()[:2]
    other = replace(records[1], environment=records[1].environment | {"hardware": "another CPU"})
    assert "hardware" not in tables.rejected(report.read(records, RULES)).header
    table = tables.rejected(report.read([records[0], other], RULES))
    assert [row[-1] for row in table.rows] == ["Simulated CPU, 2 threads", "another CPU"]


def test_notes_name_the_noise_floor_and_the_loops():
    records = over_schemes()
    looped = [replace(p, looped=i < 2) for i, p in enumerate(records[0].reference.prompts)]
    records[0] = replace(records[0], reference=replace(records[0].reference, prompts=looped))
    words = " ".join(notes(report.read(records, RULES)))
    assert "Noise floor" in words and "2 of the reference, left out of both arms" in words
    assert "Simulated CPU" in words and "GB/s" in words


def test_markdown_has_the_tables_of_the_terminal():
    sweep = report.read(over_schemes(), RULES)
    page = markdown.render(sweep, "sweep.png")
    assert "](sweep.png)" in page
    for table in (tables.wins(sweep), tables.waterfall(sweep), tables.timing(sweep), tables.rejected(sweep)):
        assert f"## {table.title}" in page
        for row in table.rows:
            assert f"| {' | '.join(row)} |" in page


def test_csv_has_every_figure():
    sweep = report.read(over_schemes(), RULES)
    lines = list(csv.DictReader(io.StringIO(spreadsheet.render(sweep))))
    assert len(lines) == len(sweep.rows)
    for line, row in zip(lines, sweep.rows):
        assert line["verdict"] == row.verdict and int(line["K"]) == row.K
        for name, value in row.metrics().items():
            assert float(line[name]) == value
        assert all(not line[name] for name, value in row.figures.values.items() if not math.isfinite(value))


@pytest.mark.parametrize("records", [over_K(), over_schemes(), over_K() + over_schemes(), over_schemes()[3:4],
                                     over_schemes()[2:3], [simulate(rounds=1)]])  # fmt: skip
def test_write(records, tmp_path):
    files = report.write(records, RULES, tmp_path / "new")
    assert [file.name for file in files] == ["report.md", "report.csv", "sweep.png"]
    assert all(file.stat().st_size for file in files)
    assert files[2].read_bytes().startswith(b"\x89PNG")


def test_the_same_records_give_the_same_pages(tmp_path):
    first, second = (report.write(over_K(), RULES, tmp_path / name)[:2] for name in "ab")
    assert [file.read_bytes() for file in first] == [file.read_bytes() for file in second]


def test_command_reads_the_sweep_and_writes(monkeypatch, capsys, tmp_path):
    asked = []
    monkeypatch.setattr(
        "acctax.tracking.read_sweep", lambda *which: asked.append(which[:2]) or (over_K()[:2], Verdict())
    )
    assert main(["--uri", "sqlite:///x.db", "--out", str(tmp_path)]) == 0
    assert main(["--sweep", "abc", "--tax-threshold", "0.9"]) == 0
    assert asked == [("sqlite:///x.db", None), (None, "abc")]
    assert "REJECT" in capsys.readouterr().out
    assert (tmp_path / "report.md").exists()


def test_command_without_a_sweep(monkeypatch, capsys):
    def none(uri, sweep, experiment):
        raise ConfigError("sweep", sweep, "no such sweep")

    monkeypatch.setattr("acctax.tracking.read_sweep", none)
    assert main(["--sweep", "abc"]) == 1
    assert capsys.readouterr().err == "sweep=abc: no such sweep\n"
