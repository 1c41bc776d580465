"""What the bytes promise, what plain and speculative decoding get of it, the tax and the verdict."""

import numpy as np

from acctax.analyze.sweep import Sweep
from acctax.report.tables.table import Table, per_cell
from acctax.report.tables.text import number, tax

COUNTED = (
    "tax: the share of the win per cycle that lost acceptance took, counted in bytes; below 0 a bonus, — where there "
    "is no win even at equal acceptance."
)
CLOCKED = "tax: the share of the win that W_spec would be, had acceptance held; the bytes of a cycle are not known."


def wins(sweep: Sweep) -> Table:
    """The tax is the counted one, or by the clock where no cell has bytes of a cycle to count."""
    bytes_known, clocked = (np.isfinite([row[name] for row in sweep.rows]).any()
                            for name in ("bytes/W_cycle", "tax/clocked"))  # fmt: skip
    how, digits, note = ("clocked", 1, CLOCKED) if clocked and not bytes_known else ("counted", 0, COUNTED)
    return per_cell(
        sweep, "wins", "Wins and tax, candidate over reference",
        ("W_bytes", "W_AR", "W_spec", f"tax, {how}", "verdict"),
        lambda row: (
            number(row["bytes/W"], 3),
            f"{row.estimate('speed/W_AR'):.3f}",
            f"{row.estimate('speed/W_spec'):.3f}",
            tax(row, f"tax/{how}", digits),
            row.verdict,
        ),
        note=f"W_bytes: what the ledger promises, W_AR: a plain pass, W_spec: speculative tok/s. {note}",
        of=lambda row: True,
    )  # fmt: skip
