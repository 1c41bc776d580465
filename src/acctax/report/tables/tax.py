"""The acceptance tax: the win had acceptance held, what is left of it, and the share that was lost."""

from acctax.analyze.sweep import Sweep
from acctax.report.tables.table import Table, per_cell
from acctax.report.tables.text import number, percent, tax


def taxes(sweep: Sweep) -> Table | None:
    return per_cell(
        sweep, "tax", "The acceptance tax, by the clock and by the count",
        ("τ_c/τ_r", "potential", "realized", "tax, clocked", "W_cycle", "tax, counted"),
        lambda row: (
            number(row["accept/tau_ratio"], 4),
            percent(row["tax/potential"], 2),
            percent(row["tax/realized"], 2),
            tax(row, "tax/clocked", 1),
            number(row["bytes/W_cycle"], 3),
            tax(row, "tax/counted", 1),
        ),
        note="realized: W_spec − 1. potential: W_spec·τ_r/τ_c − 1, had acceptance held. tax: 1 − realized/potential. "
             "Counted, the win is W_cycle, the bytes of a cycle, its K drafter passes included.",
    )  # fmt: skip
