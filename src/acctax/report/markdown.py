"""The report as Markdown: the same words and tables as on the terminal."""

from acctax.analyze.advice import commands
from acctax.analyze.sweep import Sweep
from acctax.analyze.verdicts import Name
from acctax.report import tables
from acctax.report.summary import Headline, headlines, notes, title


def render(sweep: Sweep, picture: str) -> str:
    """picture: the image's path, relative to the page."""
    parts = [f"# acctax: {title(sweep)}", *map(_headline, headlines(sweep))]
    parts += [f"![τ, tok/s and tax over K]({picture})", *map(_table, tables.every(sweep))]
    if rejected := sweep.having(Name.REJECT):
        parts.append("\n".join(["## Measure them again", "", "```sh", *commands(rejected), "```"]))
    parts.append("\n".join(["## How it was measured", "", *(f"- {note}" for note in notes(sweep))]))
    return "\n\n".join(parts) + "\n"


def _headline(headline: Headline) -> str:
    lines = [f"**{headline.verdict} {headline.title}**: {headline.reason}", headline.speeds, headline.advice]
    return "  \n".join(filter(None, lines))


def _table(table: tables.Table) -> str:
    lines = [f"## {table.title}", "", _row(table.header), _row((":--", *("--:" for _ in table.header[1:])))]
    lines += map(_row, table.rows)
    return "\n".join(lines + ["", table.note] * bool(table.note))


def _row(cells: tuple[str, ...]) -> str:
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"
