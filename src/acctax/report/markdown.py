"""The report as Markdown: the words and tables of the terminal and more, the pictures beside it."""

from collections.abc import Sequence

from acctax.analyze.advice import commands
from acctax.analyze.verdicts import Name
from acctax.report.findings import Findings
from acctax.report.sections import Section
from acctax.report.summary import Headline, headlines, notes, title
from acctax.report.tables import Table


def render(findings: Findings, sections: Sequence[Section]) -> str:
    parts = [f"# acctax: {title(findings.sweep)}", speak(findings)]
    for section in sections:
        parts.append(f"## {section.title}")
        parts += [f"![{picture.caption}]({picture.file})" for picture in section.pictures]
        parts += map(_table, section.tables)
    if again := commands(findings.sweep.having(Name.REJECT)):
        parts.append("\n".join(["### Measure the rejected again", "", "```sh", *again, "```"]))
    parts.append("\n".join(["## How it was measured", "", *(f"- {note}" for note in notes(findings.sweep))]))
    return "\n\n".join(parts) + "\n"


def speak(findings: Findings) -> str:
    """The verdicts, why, and what to do next."""
    failed = (f"**FAILED {failure.name}**: {failure.reason}" for failure in findings.failures)
    return "\n\n".join([*map(_headline, headlines(findings.sweep)), *failed])


def _headline(headline: Headline) -> str:
    lines = [f"**{headline.verdict} {headline.title}**: {headline.reason}", headline.speeds, headline.advice]
    return "  \n".join(filter(None, lines))


def _table(table: Table) -> str:
    lines = [f"### {table.title}", "", _row(table.header), _row((":--", *("--:" for _ in table.header[1:])))]
    lines += map(_row, table.rows)
    return "\n".join(lines + ["", table.note] * bool(table.note))


def _row(cells: tuple[str, ...]) -> str:
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"
