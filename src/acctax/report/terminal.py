"""The report on a terminal: verdict, why, what to run next, the tables. Colour is for verdicts alone."""

from collections.abc import Sequence

import numpy as np
from rich import box
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
WIDE = 120  # columns of a file, which has no width of its own: no cell of a table breaks
DRAWN = 3  # candidates up to which each gets its waterfall drawn


def render(findings: Findings) -> RenderableType:
    """The report's heart, at any width from 100 columns on; the files have all of it."""
    sweep = findings.sweep
    spoken = headlines(sweep)
    candidates = [h for h in spoken if h.verdict not in (Name.REFERENCE, Name.INVALID)]
    drawn = [h for h in candidates if len(candidates) <= DRAWN and np.isfinite(h.row["tax/ln_kernels"])]
    parts = [Text(f"acctax · {title(sweep)}", style="bold"), _verdicts(spoken, findings.failures)]
    parts += [_waterfall(h) for h in drawn]
    shown = (tables.wins(sweep), tables.waterfall(sweep), tables.best_K(sweep), tables.next_actions(findings.actions))
    parts += map(_table, filter(None, shown))
    if rejected := sweep.having(Name.REJECT):
        parts.append(_lines("Measure them again", commands(rejected)))
    if measured := notes(sweep):
        parts.append(_lines("How it was measured", measured))
    return Group(*(Padding(part, (0, 0, 1, 0)) for part in parts))


def print_findings(findings: Findings, console: Console | None = None) -> None:
    console = console or Console()
    if console.is_terminal:
        console.print(render(findings), highlight=False)
        return
    console.width = max(console.width, WIDE)
    with console.capture() as captured:
        console.print(render(findings), highlight=False)
    for line in captured.get().splitlines():
        console.out(line.rstrip(), highlight=False)


def _verdict(name: str) -> Text:
    return Text(name, style=f"bold {COLOURS[Name(name.upper())]}")


def _verdicts(spoken: list[Headline], failures: Sequence[Failure]) -> RichTable:
    grid = RichTable.grid(padding=(0, 2))
    grid.add_column(no_wrap=True)
    grid.add_column(no_wrap=True, style="dim")
    grid.add_column()
    for headline in spoken:
        grid.add_row(_verdict(headline.verdict), Text(headline.title, style="bold not dim"), headline.reason)
        for what, text in (("speed", headline.speeds), ("next", headline.advice)):
            if text:
                grid.add_row("", what, text)
    for failure in failures:
        grid.add_row(Text("FAILED", style="bold red"), Text(failure.name, style="bold not dim"), failure.reason)
    return grid


def _waterfall(headline: Headline) -> RenderableType:
    """One bar a step, about a common zero: promise, losses, what is left."""
    row: Row = headline.row
    steps = {"bytes promise": np.log(row["bytes/W"])} | {n: -row[loss] for n, loss in LOSSES.items()}
    steps["= realized"] = np.log(row["speed/W_spec"])
    longest = max(abs(step) for step in steps.values()) or 1.0
    left, right = (round(BAR * max(0, *(sign * s for s in steps.values())) / longest) for sign in (-1, 1))
    grid = RichTable.grid(padding=(0, 2))
    for justify in ("left", "right", "left"):
        grid.add_column(justify=justify, no_wrap=True)
    for step, value in steps.items():
        length = round(BAR * abs(value) / longest)
        bar = " " * left + "│" + "█" * length if value > 0 else " " * (left - length) + "█" * length + "│"
        grid.add_row(step, signed(100 * value), bar.ljust(left + right + 1))
    heading = Text(f"From bytes to tokens, {headline.title}, log-%", style="bold")
    return Group(heading, grid)


def _table(table: tables.Table) -> RenderableType:
    rich = RichTable(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False, collapse_padding=True)
    rich.header_style = "dim"
    for i, header in enumerate(table.header):
        rich.add_column(header, justify="left" if i == 0 or header == "verdict" else "right", no_wrap=i == 0)
    for group in table.apart:
        for row in group:
            cells = (_cell(header, text) for header, text in zip(table.header, row))
            rich.add_row(*cells, end_section=row is group[-1])
    note = [Text(table.note, style="dim")] if table.note else []
    return Group(Text(table.title, style="bold"), rich, *note)


def _cell(header: str, text: str) -> Text:
    return _verdict(text) if header == "verdict" else Text(text)


def _lines(heading: str, lines: list[str]) -> RenderableType:
    return Group(Text(heading, style="bold"), *map(Text, lines))
