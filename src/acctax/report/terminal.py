"""The report on a terminal: verdict, why, what to run next, the tables. Colour is for verdicts alone."""

import io
import os
from collections.abc import Sequence

import numpy as np
from rich import box
from rich.cells import cell_len
from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.table import Table as RichTable
from rich.text import Text

from acctax.analyze.advice import commands
from acctax.analyze.rows import Row
from acctax.analyze.verdicts import LOSSES, Name
from acctax.record import Failure
from acctax.report import tables
from acctax.report.findings import Findings
from acctax.report.folding import Block, fold
from acctax.report.printing import put
from acctax.report.summary import Headline, headlines, notes, title
from acctax.report.tables.text import signed

COLOURS = {
    Name.ACCEPT: "green",
    Name.REJECT: "red",
    Name.UNDECIDED: "yellow",
    Name.INVALID: "magenta",
    Name.REFERENCE: "cyan",
}
BAR = 24  # characters of a bar's longer side
LABELS = 33  # that stand before the bars
BESIDE = 50  # columns that a verdict and its reason need beside the longest title
WIDE = 120  # columns of a file, which has no width of its own: no cell of a table breaks
DRAWN = 3  # candidates up to which each gets its waterfall drawn


def render(findings: Findings, width: int = WIDE) -> RenderableType:
    """The report's heart, for a terminal of `width` columns; the files have all of it."""
    sweep = findings.sweep
    spoken = headlines(sweep)
    candidates = [h for h in spoken if h.verdict not in (Name.REFERENCE, Name.INVALID)]
    drawn = [h for h in candidates if len(candidates) <= DRAWN and np.isfinite(h.row["tax/ln_kernels"])]
    parts = [Text(f"acctax · {title(sweep)}", style="bold"), _verdicts(spoken, findings.failures, width)]
    parts += [_waterfall(h, width) for h in drawn]
    parted = any(row["same/disagrees"] == 1 for row in sweep.valid)
    shown = (tables.wins(sweep), tables.waterfall(sweep), tables.same_context(sweep) if parted else None,
             tables.best_K(sweep), tables.next_actions(findings.actions))  # fmt: skip
    parts += [_table(table, width) for table in shown if table]
    if again := commands(sweep.having(Name.REJECT)):
        parts.append(_lines("Measure the rejected ones again", again))
    if measured := notes(sweep):
        parts.append(_lines("How it was measured", measured))
    return Group(*(Padding(part, (0, 0, 1, 0)) for part in parts))


def print_findings(findings: Findings) -> None:
    """On standard output. A file gets plain text, as does a terminal where NO_COLOR is set."""
    console = Console()
    colours = None if os.environ.get("NO_COLOR") else console.color_system
    for line in typeset(findings, console.width, console.is_terminal, colours).splitlines():
        put(line)


def typeset(findings: Findings, width: int, terminal: bool = False, colours: str | None = None) -> str:
    """As it is printed on a terminal of so many columns, or into a file; colours: Rich's name of a colour system."""
    width = width if terminal else max(width, WIDE)
    page = Console(file=io.StringIO(), width=width, force_terminal=terminal, color_system=colours)
    page.print(render(findings, width), highlight=False)
    text = page.file.getvalue()
    return text if colours else "".join(f"{line.rstrip()}\n" for line in text.splitlines())


def _verdict(name: str) -> Text:
    return Text(name, style=f"bold {COLOURS[Name(name.upper())]}")


def _verdicts(spoken: list[Headline], failures: Sequence[Failure], width: int) -> RenderableType:
    """Verdict, title and reason side by side where a sentence fits beside the longest title, else the reason below."""
    titles = [*(headline.title for headline in spoken), *(failure.name for failure in failures)]
    if width - max(map(cell_len, titles)) < BESIDE:
        return _stacked(spoken, failures)
    grid = RichTable.grid(padding=(0, 2))
    grid.add_column(no_wrap=True)
    grid.add_column(no_wrap=True, style="dim")
    grid.add_column()
    for headline in spoken:
        grid.add_row(_verdict(headline.verdict), Text(headline.title, style="bold not dim"), Text(headline.reason))
        for what, text in (("speed", headline.speeds), ("next", headline.advice)):
            if text:
                grid.add_row("", what, Text(text))
    for failure in failures:
        grid.add_row(Text("FAILED", style="bold red"), Text(failure.name, style="bold not dim"), Text(failure.reason))
    return grid


def _stacked(spoken: list[Headline], failures: Sequence[Failure]) -> RenderableType:
    lines = []
    for headline in spoken:
        told = headline.reason, headline.speeds, f"next: {headline.advice}" * bool(headline.advice)
        lines += [Text.assemble(_verdict(headline.verdict), " ", (headline.title, "bold")),
                  *(Padding(Text(line), (0, 0, 0, 2)) for line in told if line)]  # fmt: skip
    for failure in failures:
        heading = Text.assemble(("FAILED", "bold red"), " ", (failure.name, "bold"))
        lines += [heading, Padding(Text(failure.reason), (0, 0, 0, 2))]
    return Group(*lines)


def _waterfall(headline: Headline, width: int) -> RenderableType:
    """One bar a step, about a common zero: promise, losses, what is left."""
    row: Row = headline.row
    steps = {"bytes promise": np.log(row["bytes/W"])} | {n: -row[loss] for n, loss in LOSSES.items()}
    steps["= realized"] = np.log(row["speed/W_spec"])
    longest = max(abs(step) for step in steps.values()) or 1.0
    longer = max(4, min(BAR, (width - LABELS) // 2))
    left, right = (round(longer * max(0, *(sign * s for s in steps.values())) / longest) for sign in (-1, 1))
    grid = RichTable.grid(padding=(0, 2))
    for justify in ("left", "right", "left"):
        grid.add_column(justify=justify, no_wrap=True)
    for step, value in steps.items():
        length = round(longer * abs(value) / longest)
        bar = " " * left + "│" + "█" * length if value > 0 else " " * (left - length) + "█" * length + "│"
        grid.add_row(step, signed(100 * value), bar.ljust(left + right + 1))
    heading = Text(f"From bytes to tokens, {headline.title}, log-%", style="bold")
    return Group(heading, grid)


def _table(table: tables.Table, width: int) -> RenderableType:
    blocks = map(_block, fold(table, width))
    note = [Text(table.note, style="dim")] if table.note else []
    apart = [part for block in blocks for part in (Text(), block)][1:]
    return Group(Text(table.title, style="bold"), *apart, *note)


def _block(block: Block) -> RichTable:
    rich = RichTable(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False, collapse_padding=True)
    rich.header_style = "dim"
    table = block.table
    for i, (header, width) in enumerate(zip(table.header, block.widths)):
        rich.add_column(header, justify="left" if i == 0 or header == "verdict" else "right", width=width)
    for group in table.apart:
        for row in group:
            cells = (_cell(header, text) for header, text in zip(table.header, row))
            rich.add_row(*cells, end_section=row is group[-1])
    return rich


def _cell(header: str, text: str) -> Text:
    return _verdict(text) if header == "verdict" else Text(text)


def _lines(heading: str, lines: list[str]) -> RenderableType:
    return Group(Text(heading, style="bold"), *map(Text, lines))
