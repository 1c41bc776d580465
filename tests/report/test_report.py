"""The words of a report, its terminal form, and the files and command that hold it together."""

import csv
import io
import re
import subprocess
import sys
from dataclasses import replace

import pytest

from acctax import report
from acctax.analyze import sweep
from acctax.analyze.case_study import CaseStudy, Side, read_case_study
from acctax.config import Verdict
from acctax.errors import ConfigError
from acctax.record import Measured
from acctax.report import spreadsheet, tables
from acctax.report.__main__ import main
from acctax.report.findings import Findings
from acctax.report.sections import sections
from acctax.report.summary import headlines, notes
from acctax.report.terminal import typeset
from tests.analyze.simulate import QKV, REFERENCE, simulate
from tests.report.sweeps import FAILURE, over_K, over_schemes, read, scored

PAGES = ["report.html", "report.md", "report.tex", "report.csv"]


def text(findings, width=120):
    return typeset(findings, width)


@pytest.mark.parametrize("records", [over_K(), over_schemes(), over_schemes()[:2], over_K()[:1]])
def test_a_file_gets_120_plain_columns(records):
    page = text(read(records), width=80)
    assert max(map(len, page.splitlines())) <= 120
    assert "…" not in page.replace("draft_source.recipe=…", "")  # no cell of a table was cut
    assert "\x1b" not in page and all(line == line.rstrip() for line in page.splitlines())


def test_the_verdict_comes_first_and_failures_follow():
    lines = text(read(over_K(), FAILURE)).splitlines()
    assert "smollm2_135m · self:int8_all" in lines[0]
    assert lines[2].startswith("REJECT") and "acceptance ate" in lines[2]
    [failed] = [line for line in lines if line.startswith("FAILED")]
    assert "int4 K=3" in failed and "MemoryError: no room for it" in failed


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
    assert main(["--sweep", "abc"]) == 2
    assert capsys.readouterr().err == "sweep=abc: no such sweep\n"


@pytest.mark.parametrize("arguments, told", [
    (["--tax-threshold", "30"], "30: must be a share from 0 to 1: 0.5 means 50 %"),
    (["--tax-threshold", "nan"], "nan: must be a share from 0 to 1"),
    (["--tax-threshold", "half"], "half: must be a share from 0 to 1"),
    (["--margin", "-1"], "-1: must be a number from 0 on"),
])  # fmt: skip
def test_command_refuses_a_number_in_words_of_its_own(arguments, told, capsys):
    with pytest.raises(SystemExit) as stop:
        main(arguments)
    printed = capsys.readouterr().err
    assert stop.value.code == 2 and told in printed and "_share" not in printed and "_margin" not in printed


def test_command_with_a_folder_that_cannot_be_written(monkeypatch, capsys):
    monkeypatch.setattr("acctax.tracking.read_sweep", lambda *which: (Measured(over_K()[:1]), Verdict()))
    assert main(["--out", "/proc/nope"]) == 2
    [line] = capsys.readouterr().err.splitlines()
    assert line.startswith("out=/proc/nope: must be a folder that can be written to (")


def test_one_of_a_thing_is_no_plural():
    words = " ".join(notes(read([simulate(prompts=1, rounds=1)]).sweep))
    assert "Counted on 1 prompt, clocked in 1 interleaved round; " in words
    assert "24 prompts, clocked in 6 interleaved rounds" in " ".join(notes(read(over_K()).sweep))


def test_plain_decoding_alone_is_called_so():
    findings = read([simulate(0, target_quant="int8")])
    [headline] = headlines(findings.sweep)
    assert headline.speeds.startswith("plain ") and "speculative" not in headline.speeds
    words = " ".join(notes(findings.sweep))
    assert "Only plain decoding, K=0, was measured" in words and "lower acceptance" not in words


@pytest.mark.parametrize("own, same, story", [
    (0.8, 0.97, "The tax on own texts is not seen on the same text: "),
    (0.8, 1.0, "The tax on own texts is not seen on the same text, a bonus is: "),
    (0.8, 0.9, "The tax is seen on the same text too, smaller"),
    (0.9, 0.7, "The tax is seen on the same text too, larger"),
    (0.97, 0.7, "On the same text there is a tax that texts of their own hide"),
])  # fmt: skip
def test_acceptance_on_own_texts_and_on_the_same_text_is_told_apart(own, same, story):
    record = scored(simulate(3, candidate=replace(QKV, alpha=own), prompts=60, spread=0.1), 0.02, same)
    findings = read([record])
    assert findings.sweep.rows[0]["same/disagrees"] == 1
    [headline] = headlines(findings.sweep)
    assert f"{headline.row.reason}. {story}" in headline.reason
    assert "Acceptance: each its own text, and both the reference's text" in text(findings)


def test_where_own_and_same_text_agree_nothing_is_said_of_it():
    findings = read([scored(simulate(3), 0.02, alpha=0.86)])
    assert findings.sweep.rows[0]["same/disagrees"] == 0
    [headline] = headlines(findings.sweep)
    assert headline.reason == headline.row.reason and "each its own text" not in text(findings)


def test_a_forecast_far_off_says_why():
    near = scored(simulate(3), 0.02, 0.86)
    slow = replace(QKV, T1=30e-3)  # kernels far from the read bandwidth
    far = scored(simulate(3, reference=replace(REFERENCE, T1=30e-3), candidate=slow), 0.02, 0.86)
    why = "far off since it takes kernels to run at the read bandwidth and the drafter to cost its bytes"
    for record, told in ((near, False), (far, True)):
        findings = read([record])
        assert (findings.sweep.median_residual("forecast") > 0.25) == told
        assert (why in " ".join(notes(findings.sweep))) == (why in tables.predictions(findings.sweep).note) == told


def test_a_replayed_case_study_speaks_of_what_was_published():
    study = CaseStudy("a book", "a model", "nvfp4", "MTP head", 3, share=0.1426, left=0.5625 / 2,
                      reference=Side(147.87, 2.792), candidate=Side(150.73, 2.546))  # fmt: skip
    page = text(Findings(sweep([read_case_study(study)])))
    assert "Measure them again" not in page  # by what command?
    assert "counted" not in page and "tax, clocked" in page and "83.6 %" in page


@pytest.mark.parametrize("records", [
    over_K(), over_schemes(), [simulate(prompts=1)], [simulate(rounds=1)], [simulate(0)],
    [scored(record, 0.02) for record in over_K()], over_schemes()[3:4],
    [simulate(candidate=REFERENCE, is_reference=True)],
])  # fmt: skip
def test_no_figure_without_a_value_is_printed(records):
    findings = read(records)
    pages = [text(findings), report.spoken(findings), *notes(findings.sweep)]
    cells = [cell for section in sections(findings) for table in section.tables for row in table.rows for cell in row]
    assert not any(re.search(r"\bnan\b", word) for word in [*pages, *cells])
