"""The report as one HTML page that needs nothing else: pictures and style stand in it, and it prints."""

from collections.abc import Sequence
from html import escape

from acctax.analyze.advice import commands
from acctax.analyze.verdicts import Name
from acctax.record import Failure
from acctax.report.findings import Findings
from acctax.report.pictures import Picture, style
from acctax.report.sections import Section
from acctax.report.summary import Headline, headlines, notes, title
from acctax.report.tables import Table

LIGHT = """--ink: #1b1b1f; --faint: #5f5f66; --rule: #dcdce1; --paper: #ffffff; --card: #f6f6f8;
  --accept: #00684b; --reject: #a84300; --undecided: #7a5200; --invalid: #8a3a68; --reference: #00578a;"""
DARK = """--ink: #ececf0; --faint: #a3a3ab; --rule: #3a3a42; --paper: #17171b; --card: #212127;
  --accept: #3cc79b; --reject: #ff8a3c; --undecided: #e6b34d; --invalid: #dd9bc2; --reference: #56b4e9;"""
STYLE = f""":root {{ color-scheme: light dark; {LIGHT} }}
@media (prefers-color-scheme: dark) {{ :root {{ {DARK} }} }}
@media print {{ :root {{ {LIGHT} }} }}
""" + """
body { background: var(--paper); color: var(--ink); font: 1rem/1.5 system-ui, sans-serif; max-width: 68rem;
  margin: 0 auto; padding: 1.5rem; }
h1 { font-size: 1.5rem; margin: 0; }
h2 { font-size: 1.2rem; margin: 2.5rem 0 .5rem; }
p { margin: .3rem 0; }
.faint, figcaption, .note { color: var(--faint); font-size: .87rem; }
.verdicts { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 20rem), 1fr)); gap: .8rem;
  margin: 1rem 0; }
.verdict { background: var(--card); border-left: .3rem solid; padding: .6rem 1rem; }
.verdict p, .verdict b + b { color: var(--ink); }
.verdict .faint { color: var(--faint); }
.ACCEPT { color: var(--accept); }
.REJECT, .FAILED { color: var(--reject); }
.UNDECIDED { color: var(--undecided); }
.INVALID { color: var(--invalid); }
.REFERENCE { color: var(--reference); }
figure, .scroll { margin: 1rem 0; overflow-x: auto; }
svg { max-width: max(100%, 36rem); height: auto; display: block; }
table { border-collapse: collapse; font-size: .87rem; font-variant-numeric: tabular-nums;
  border-top: 2px solid var(--ink); border-bottom: 2px solid var(--ink); }
caption { text-align: left; font-weight: 600; padding: .3rem 0; }
th { font-weight: 500; border-bottom: 1px solid var(--ink); vertical-align: bottom; }
th, td { text-align: right; padding: .2rem .75rem; white-space: nowrap; }
th:first-child, td:first-child { text-align: left; padding-left: 0; }
th:last-child, td:last-child { padding-right: 0; }
tbody + tbody tr:first-child td { border-top: 1px solid var(--rule); }
#failed th, #failed td { text-align: left; white-space: normal; }
pre { background: var(--card); padding: .8rem; font-size: .85rem; white-space: pre-wrap; }
@media print {
  html { font-size: 10pt; }
  body { max-width: none; padding: 0; }
  figure, tr, .verdict { break-inside: avoid; }
  h2, caption { break-after: avoid; }
  svg { max-width: 100%; }
  .scroll, figure { overflow: visible; }
  th, td { white-space: normal; padding: .1rem .3rem; }
}
"""


def render(findings: Findings, sections: Sequence[Section]) -> str:
    sweep = findings.sweep
    verdicts = "".join([*map(_headline, headlines(sweep)), *map(_failure, findings.failures)])
    body = [f"<h1>acctax</h1><p class=faint>{escape(title(sweep))}</p><div class=verdicts>{verdicts}</div>"]
    for section in sections:
        body.append(f"<h2>{escape(section.title)}</h2>")
        body += [*map(_figure, section.pictures), *map(_table, section.tables)]
    if again := commands(sweep.having(Name.REJECT)):
        body.append(f"<h2>Measure the rejected again</h2><pre>{escape(chr(10).join(again))}</pre>")
    listed = "".join(f"<li>{escape(note)}</li>" for note in notes(sweep))
    body.append(f"<h2>How it was measured</h2><ul>{listed}</ul>")
    head = (
        "<!doctype html><html lang=en><meta charset=utf-8><meta name=viewport content='width=device-width'>"
        f"<title>acctax: {escape(title(sweep))}</title><style>{STYLE}</style>"
    )
    return "\n".join([head, *body]) + "\n"


def _headline(headline: Headline) -> str:
    faint = ((headline.speeds, ""), (headline.advice, "next: "))
    lines = "".join(f"<p class=faint>{how}{escape(line)}" for line, how in faint if line)
    return (
        f"<div class='verdict {headline.verdict}'><b>{headline.verdict}</b> "
        f"<b>{escape(headline.title)}</b><p>{escape(headline.reason)}{lines}</div>"
    )


def _failure(failure: Failure) -> str:
    return (
        f"<div class='verdict FAILED'><b>FAILED</b> <b>{escape(failure.name)}</b>"
        f"<p>{escape(failure.reason)}</div>"
    )


def _figure(picture: Picture) -> str:
    label = escape(picture.name.replace("_", " "), quote=True)
    drawing = style.inline(picture.svg).replace("<svg ", f"<svg role=img aria-label='{label}' ", 1)
    return f"<figure>{drawing}<figcaption>{escape(picture.caption)}</figcaption></figure>"


def _table(table: Table) -> str:
    header = "".join(f"<th>{escape(cell)}" for cell in table.header)
    body = "".join(f"<tbody>{''.join(map(_row, group))}" for group in table.apart)
    note = f"<p class=note>{escape(table.note)}</p>" if table.note else ""
    return (
        f"<div class=scroll><table id={table.key}><caption>{escape(table.title)}</caption>"
        f"<thead><tr>{header}{body}</table></div>{note}"
    )


def _row(cells: tuple[str, ...]) -> str:
    return "<tr>" + "".join(_cell(cell) for cell in cells)


def _cell(text: str) -> str:
    verdict = f" class={text}" if text in Name.__members__ else ""
    return f"<td{verdict}>{escape(text)}"
