"""What people read: the terminal, Markdown, CSV and one picture, all from records. Never imports torch."""

from collections.abc import Sequence
from pathlib import Path

from acctax.analyze import Rules, Sweep, analyze, sweep
from acctax.record import Record
from acctax.report import markdown, plots, spreadsheet, terminal


def read(records: Sequence[Record], verdict: Rules) -> Sweep:
    """The rows of a sweep's records. Raises ValueError where there is none."""
    return sweep(analyze(record, verdict) for record in records)


def print_terminal(records: Sequence[Record], verdict: Rules) -> None:
    terminal.print_sweep(read(records, verdict))


def write(records: Sequence[Record], verdict: Rules, folder: Path) -> list[Path]:
    """report.md, report.csv and sweep.png in `folder`, made if absent; verdict: or a config's group."""
    measured = read(records, verdict)
    folder.mkdir(parents=True, exist_ok=True)
    page, table, picture = (folder / name for name in ("report.md", "report.csv", "sweep.png"))
    page.write_text(markdown.render(measured, picture.name), encoding="utf-8")
    table.write_text(spreadsheet.render(measured), encoding="utf-8")
    plots.draw(measured, picture, verdict.tax_threshold)
    return [page, table, picture]
