"""The tables as LaTeX (booktabs), in a document that compiles as it stands; each can be copied into a paper."""

import re
from collections.abc import Sequence

from acctax.report.findings import Findings
from acctax.report.sections import Section
from acctax.report.summary import title
from acctax.report.tables import Table

MATHS = {
    "τ": r"\tau", "α": r"\alpha", "Σ": r"\Sigma", "−": "-", "→": r"\to", "∞": r"\infty", "×": r"\times", "·": r"\cdot",
    "≤": r"\le", "≥": r"\ge",
}  # fmt: skip
TEXT = {
    "\\": r"\textbackslash{}", "{": r"\{", "}": r"\}", "%": r"\%", "$": r"\$", "&": r"\&", "#": r"\#", "_": r"\_",
    "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "<": r"\textless{}", ">": r"\textgreater{}",
    "|": r"\textbar{}", "—": "---", "–": "--", "…": r"\dots{}",
}  # fmt: skip
SUBSCRIPTED = re.compile(r"\b(BW|[BCWTτα])_([A-Za-z]+)\b")
ESCAPES = str.maketrans(TEXT | {sign: f"${command}$" for sign, command in MATHS.items()})

PREAMBLE = r"""\documentclass{article}
\usepackage[a4paper,landscape,margin=15mm]{geometry}
\usepackage{booktabs}
\begin{document}
\footnotesize
"""


def render(findings: Findings, sections: Sequence[Section]) -> str:
    caption = escape(title(findings.sweep))
    tables = [_table(table, caption) for section in sections for table in section.tables]
    return PREAMBLE + "\n".join(tables) + "\\end{document}\n"


def escape(text: str) -> str:
    """With W_spec, τ_c and their like as mathematics."""
    *pieces, rest = SUBSCRIPTED.split(text)
    escaped = [before.translate(ESCAPES) + f"${MATHS.get(symbol, symbol)}_{{\\mathrm{{{index}}}}}$"
               for before, symbol, index in zip(*[iter(pieces)] * 3)]  # fmt: skip
    return "".join([*escaped, rest.translate(ESCAPES)])


def _table(table: Table, of: str) -> str:
    body = "\\addlinespace\n".join("".join(map(_row, group)) for group in table.apart)
    note = f"\\par\\smallskip\n\\begin{{minipage}}{{0.9\\linewidth}}{escape(table.note)}\\end{{minipage}}\n"
    return (
        "\\begin{table}[p]\n\\centering\n"
        f"\\caption{{{escape(table.title)} ({of})}}\n\\label{{tab:{table.key}}}\n"
        f"\\begin{{tabular}}{{l{''.join(map(_column, table.header[1:]))}}}\n\\toprule\n{_row(table.header)}\\midrule\n"
        f"{body}\\bottomrule\n\\end{{tabular}}\n{note if table.note else ''}\\end{{table}}\n"
    )


def _column(header: str) -> str:
    return r"p{0.6\linewidth}" if header == "reason" else "r"


def _row(cells: Sequence[str]) -> str:
    return " & ".join(map(escape, cells)) + " \\\\\n"
