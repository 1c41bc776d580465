"""The report on terminals of every kind: narrow, without colour or Unicode, and on pipes that nobody reads."""

import os
import pty
import re
import subprocess
import sys

import pytest

from acctax.record import Failure
from acctax.report import tables
from acctax.report.folding import fold
from acctax.report.printing import spell
from acctax.report.terminal import typeset
from tests.report.sweeps import FAILURE, over_K, over_recipes, over_schemes, read, scored

PRINT = """
from acctax import report
from tests.report.sweeps import FAILURE, over_K, read
report.print_terminal(read(over_K(), FAILURE))
print("and on")
"""
LONG = " drafter nvfp4_a8_all, draft_source self:nvfp4_a8_all"
SWEEPS = {
    "K": over_K(), "schemes": [scored(record, 0.02) for record in over_schemes()],
    "recipes": over_recipes()[:6], "long": over_recipes(longer=LONG)[:4],
}  # fmt: skip


def on_a_terminal(findings, width, colours=None) -> str:
    return typeset(findings, width, terminal=True, colours=colours)


def run(stdout=subprocess.PIPE, **environment) -> subprocess.CompletedProcess:
    kept = {name: value for name, value in os.environ.items() if name not in ("NO_COLOR", "PYTHONIOENCODING")}
    return subprocess.run([sys.executable, "-c", PRINT], env=kept | environment, stdout=stdout, stderr=subprocess.PIPE)


@pytest.mark.parametrize("width", [40, 60, 80, 99, 100, 140])
@pytest.mark.parametrize("name", SWEEPS)
def test_every_cell_of_a_table_is_whole_at_any_width(name, width):
    findings = read(SWEEPS[name], FAILURE)
    page = on_a_terminal(findings, width)
    assert max(map(len, page.splitlines())) <= width
    for table in (tables.wins(findings.sweep), tables.waterfall(findings.sweep), tables.best_K(findings.sweep)):
        for cell in [cell for row in table.rows for cell in row[1:]] if table else ():
            assert all(piece in page for piece in re.split(r" (?=\[)|(?<=→) ", cell)), cell


@pytest.mark.parametrize("width", [30, 60, 80, 100, 200])
def test_folded_columns_fit_and_none_is_lost(width):
    findings = read(SWEEPS["schemes"])
    for table in (tables.wins(findings.sweep), tables.waterfall(findings.sweep), tables.same_context(findings.sweep)):
        blocks = fold(table, width)
        assert all(sum(block.widths) + 2 * (len(block.widths) - 1) <= width for block in blocks)
        assert [header for block in blocks for header in block.table.header[1:]] == list(table.header[1:])
        for block in blocks:
            assert [row[0] for row in block.table.rows] == [row[0] for row in table.rows]
        assert (len(blocks) == 1) or width < 100


def test_a_table_that_fits_stays_as_it_is():
    table = tables.wins(read(over_K()).sweep)
    assert [block.table for block in fold(table, 100)] == [table]


def test_colour_is_for_verdicts_alone():
    page = on_a_terminal(read(over_K(), FAILURE), 120, "standard")
    for piece in page.split("\x1b[")[1:]:
        style, _, words = piece.partition("m")
        if {"31", "32", "33", "35", "36"} & set(style.split(";")):
            assert words.strip() in ("REJECT", "FAILED")


@pytest.mark.parametrize("no_color, escapes", [("1", False), ("", True)])
def test_no_color_is_obeyed_on_a_terminal(no_color, escapes):
    reader, writer = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-c", PRINT], stdout=writer, env=os.environ | {"NO_COLOR": no_color, "TERM": "xterm-256color"})
    os.close(writer)
    page = b""
    try:
        while piece := os.read(reader, 65536):
            page += piece
    except OSError:  # the other side is gone
        pass
    os.close(reader)
    assert process.wait() == 0 and b"REJECT" in page
    assert (b"\x1b" in page) == escapes


@pytest.mark.parametrize("encoding", ["latin-1", "ascii", "utf-8"])
def test_a_terminal_without_unicode_gets_other_letters(encoding):
    done = run(PYTHONIOENCODING=encoding)
    page = done.stdout.decode(encoding)
    assert done.returncode == 0 and not done.stderr
    assert page.endswith("and on\n") and "REJECT" in page and "?" not in page
    wins = [line for line in page.splitlines() if re.match(r"K=\d", line)][:6]
    assert len({len(line) for line in wins}) == 1  # columns stay where they are


@pytest.mark.parametrize("width", [60, 120])
def test_brackets_in_a_reason_are_letters(width):
    failure = Failure("int4 K=3", "ValueError: [/tmp] is [bold]no[/bold] [/file]", "")
    assert failure.reason in on_a_terminal(read(over_K()[:1], failure), width)


def test_letters_keep_their_width():
    assert spell("τ_c/τ_r 1 → 2, −5 %, ∞ — é", "ascii") == "t_c/t_r 1-> 2, -5 %, ~ - ?"
    assert spell("× é −", "latin-1") == "× é -"
    assert spell("τ → −", "utf-8") == "τ → −"


def test_a_pipe_that_nobody_reads_ends_quietly():
    reader, writer = os.pipe()
    os.close(reader)
    done = run(stdout=writer)
    os.close(writer)
    assert done.returncode == 0 and not done.stderr


def test_a_standard_output_that_is_closed_or_full_is_no_error():
    closed = f"import sys; sys.stdout.close()\n{PRINT.replace('print(', 'str(')}"
    for code in (closed, f"import sys; sys.stdout = None\n{PRINT}"):
        done = subprocess.run([sys.executable, "-c", code], stderr=subprocess.PIPE)
        assert done.returncode == 0 and not done.stderr
    with open("/dev/full", "w") as full:
        done = run(stdout=full)
    assert done.returncode == 0 and not done.stderr
