"""The report as CSV: a line per cell, every figure with its interval, unrounded."""

import csv
import io

from acctax.analyze.sweep import Sweep


def render(sweep: Sweep) -> str:
    rows = sweep.rows
    choices = list(dict.fromkeys(name for row in rows for name in row.choices))
    figures = list(dict.fromkeys(name for row in rows for name in row.figures.values))
    text = io.StringIO()
    table = csv.writer(text, lineterminator="\n")
    table.writerow([*choices, "verdict", "reason", "component", "hardware", *figures, "cell_id", "rerun"])
    for row in rows:
        known = row.figures.finite()
        table.writerow([
            *(row.choices.get(name, "") for name in choices),
            row.verdict, row.reason, row.component or "", row.environment.get("hardware", ""),
            *(known.get(name, "") for name in figures),
            row.cell_id, row.rerun,
        ])  # fmt: skip
    return text.getvalue()
