"""What the bytes promise, what plain and speculative decoding get of it, the tax and the verdict."""

from acctax.analyze.sweep import Sweep
from acctax.report.tables.table import Table, per_cell
from acctax.report.tables.text import number, tax


def wins(sweep: Sweep) -> Table:
    return per_cell(
        sweep, "wins", "Wins and tax, candidate over reference",
        ("W_bytes", "W_AR", "W_spec", "tax, counted", "verdict"),
        lambda row: (
            number(row["bytes/W"], 3),
            f"{row.estimate('speed/W_AR'):.3f}",
            f"{row.estimate('speed/W_spec'):.3f}",
            tax(row, "tax/counted"),
            row.verdict,
        ),
        note="W_bytes: what the ledger promises, W_AR: a plain pass, W_spec: speculative tok/s. "
             "tax: the share of the win per cycle that lost acceptance took, counted in bytes; "
             "below 0 a bonus, — where there is no win even at equal acceptance.",
        of=lambda row: True,
    )  # fmt: skip
