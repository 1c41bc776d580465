"""What people read: the terminal, Markdown, CSV, LaTeX and one HTML page, all from records. Never imports torch."""

from pathlib import Path

from acctax.analyze import Rules, analyze, sweep
from acctax.analyze.actions import rank
from acctax.record import Measured
from acctax.report import html, latex, markdown, spreadsheet, terminal
from acctax.report.findings import Findings
from acctax.report.printing import put
from acctax.report.sections import sections


def read(measured: Measured, rules: Rules) -> Findings:
    """The records of a sweep, analysed; rules: or a config's verdict group. Raises ValueError where there is none."""
    analysed = sweep(analyze(record, rules) for record in measured.records)
    return Findings(analysed, rank(analysed, measured.levers), measured.failures)


def print_terminal(findings: Findings, folder: Path | None = None) -> None:
    """folder: where `write` put the rest, if it did. Never raises, whatever standard output is."""
    terminal.print_findings(findings)
    if folder:
        put(f"The whole report: {folder / 'report.html'}")


def spoken(findings: Findings) -> str:
    """The verdicts in words, as Markdown."""
    return markdown.speak(findings)


def write(findings: Findings, folder: Path) -> list[Path]:
    """report.html, report.md, report.tex, report.csv and the pictures in `folder`, made if absent."""
    parts = sections(findings)
    pages = {
        "report.html": html.render(findings, parts),
        "report.md": markdown.render(findings, parts),
        "report.tex": latex.render(findings, parts),
        "report.csv": spreadsheet.render(findings.sweep),
    } | {picture.file: picture.svg for part in parts for picture in part.pictures}
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in pages.items():
        (folder / name).write_text(text, encoding="utf-8")
    return [folder / name for name in pages]
