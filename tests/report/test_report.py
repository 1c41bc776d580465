"""The words of a report, its terminal form, and the files and command that hold it together."""

import csv
import io
import subprocess
import sys
from dataclasses import replace

import pytest
from rich.console import Console

from acctax import report
from acctax.config import Verdict
from acctax.errors import ConfigError
from acctax.record import Measured
from acctax.report import spreadsheet, tables
from acctax.report.__main__ import main
from acctax.report.sections import sections
from acctax.report.summary import headlines, notes
from acctax.report.terminal import print_findings
from tests.analyze.simulate import simulate
from tests.report.sweeps import FAILURE, over_K, over_schemes, read, scored

PAGES = ["report.html", "report.md", "report.tex", "report.csv"]


def text(findings, width=120):
    out = io.StringIO()
    print_findings(findings, Console(file=out, width=width))
    return out.getvalue()


@pytest.mark.parametrize("records", [over_K(), over_schemes(), over_schemes()[:2], over_K()[:1]])
def test_a_file_gets_120_plain_columns(records):
    page = text(read(records), width=80)
    assert max(map(len, page.splitlines())) <= 120
    assert "…" not in page.replace("draft_source.recipe=…", "")  # no cell of a table was cut
    assert "\x1b" not in page and all(line == line.rstrip() for line in page.splitlines())


def test_no_cell_wraps_on_a_terminal_of_100_columns():
    out = io.StringIO()
    findings = read(over_schemes()[:5])
    print_findings(findings, Console(file=out, width=100, force_terminal=True, color_system=None))
    lines = out.getvalue().splitlines()
    for table in (tables.wins(findings.sweep), tables.waterfall(findings.sweep)):
        assert all(any(all(cell in line for cell in row) for line in lines) for row in table.rows)


def test_the_verdict_comes_first_and_failures_follow():
    lines = text(read(over_K(), FAILURE)).splitlines()
    assert "smollm2_135m · self:int8_all" in lines[0]
    assert lines[2].startswith("REJECT") and "acceptance ate" in lines[2]
    [failed] = [line for line in lines if line.startswith("FAILED")]
    assert "int4 K=3" in failed and "MemoryError: no room for it" in failed


def test_colour_is_for_verdicts_alone():
    out = io.StringIO()
    print_findings(read(over_K(), FAILURE), Console(file=out, width=120, force_terminal=True, color_system="standard"))
    for piece in out.getvalue().split("\x1b[")[1:]:
        style, _, words = piece.partition("m")
        if {"31", "32", "33", "35", "36"} & set(style.split(";")):
            assert words.strip() in ("REJECT", "FAILED")


def test_reasons_are_plain():
    reasons = {headline.title: headline.reason for headline in headlines(read(over_schemes()).sweep)}
    assert "no win even at equal acceptance" in reasons["fp32 K=3"]


def test_notes_name_the_noise_floor_the_loops_and_the_seed():
    records = over_schemes()
    looped = [replace(p, looped=i < 2) for i, p in enumerate(records[0].reference.prompts)]
    records[0] = replace(records[0], reference=replace(records[0].reference, prompts=looped))
    words = " ".join(notes(read(records).sweep))
    assert "Noise floor" in words and "2 of the reference, left out of both arms" in words
    assert "Simulated CPU" in words and "GB/s" in words and "seed 0" in words


def test_csv_has_every_figure():
    sweep = read(over_schemes()).sweep
    lines = list(csv.DictReader(io.StringIO(spreadsheet.render(sweep))))
    assert len(lines) == len(sweep.rows)
    for line, row in zip(lines, sweep.rows):
        assert line["verdict"] == row.verdict and int(line["K"]) == row.K
        known = row.figures.finite()
        for name in row.figures.values:
            assert float(line[name]) == known[name] if name in known else not line[name]


@pytest.mark.parametrize("records", [
    over_K(), over_schemes(), over_K() + over_schemes(), over_schemes()[3:4], over_schemes()[2:3], [simulate(rounds=1)],
    [scored(record, 0.02) for record in over_K()],
])  # fmt: skip
def test_write(records, tmp_path):
    findings = read(records, FAILURE)
    files = report.write(findings, tmp_path / "new")
    pictures = [picture.file for section in sections(findings) for picture in section.pictures]
    assert [file.name for file in files] == PAGES + pictures
    page = (tmp_path / "new" / "report.md").read_text()
    for section in sections(findings):
        for picture in section.pictures:
            assert f"]({picture.file})" in page
        for table in section.tables:
            assert f"### {table.title}" in page
            assert all(f"| {' | '.join(row)} |" in page for row in table.rows)


def test_the_same_records_give_the_same_files(tmp_path):
    first, second = (report.write(read(over_K()), tmp_path / name) for name in "ab")
    assert [file.read_bytes() for file in first] == [file.read_bytes() for file in second]


def test_a_laptop_without_torch_can_report():
    code = "import acctax.report.__main__, sys; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


def test_command_reads_the_sweep_and_writes(monkeypatch, capsys, tmp_path):
    asked = []
    measured = Measured(over_K()[:2], [FAILURE])
    monkeypatch.setattr("acctax.tracking.read_sweep", lambda *which: asked.append(which[:2]) or (measured, Verdict()))
    assert main(["--uri", "sqlite:///x.db", "--out", str(tmp_path)]) == 0
    assert main(["--sweep", "abc", "--tax-threshold", "0.9"]) == 0
    assert asked == [("sqlite:///x.db", None), (None, "abc")]
    printed = capsys.readouterr().out
    assert "REJECT" in printed and "FAILED" in printed
    assert all((tmp_path / name).exists() for name in PAGES)


def test_command_without_a_sweep(monkeypatch, capsys):
    def none(uri, sweep, experiment):
        raise ConfigError("sweep", sweep, "no such sweep")

    monkeypatch.setattr("acctax.tracking.read_sweep", none)
    assert main(["--sweep", "abc"]) == 1
    assert capsys.readouterr().err == "sweep=abc: no such sweep\n"
