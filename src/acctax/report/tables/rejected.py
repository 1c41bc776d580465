"""The rejected candidates, and the component that ate each: listing them is the point."""

from dataclasses import replace

from acctax.analyze.sweep import Sweep
from acctax.analyze.verdicts import LOSSES, Name
from acctax.report.tables.table import Table, per_cell
from acctax.report.tables.text import number, signed, tax


def rejected(sweep: Sweep) -> Table | None:
    table = per_cell(
        sweep, "rejected", "Rejected candidates",
        ("eaten by", "loss, log-%", "W_cycle", "tax, counted", "W_spec", "hardware"),
        lambda row: (
            row.component,
            signed(-100 * row[LOSSES[row.component]]),
            number(row["bytes/W_cycle"], 3),
            tax(row, "tax/counted"),
            f"{row.estimate('speed/W_spec'):.3f}",
            row.environment.get("hardware", ""),
        ),
        note="W_cycle: bytes of a cycle, reference over candidate, its K drafter passes included: "
             "the win that the counted tax is a share of.",
        of=lambda row: row.verdict == Name.REJECT,
    )  # fmt: skip
    if table is None or len({row[-1] for row in table.rows}) > 1:
        return table
    without_hardware = tuple(tuple(row[:-1] for row in group) for group in table.groups)
    return replace(table, header=table.header[:-1], groups=without_hardware)
