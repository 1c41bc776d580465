"""The waterfall from bytes to tokens, in logarithms, so that a row adds up."""

import numpy as np

from acctax.analyze.sweep import Sweep
from acctax.analyze.verdicts import LOSSES
from acctax.report.tables.table import Table, per_cell
from acctax.report.tables.text import signed


def waterfall(sweep: Sweep) -> Table | None:
    return per_cell(
        sweep, "waterfall", "Where the byte win went, log-%",
        ("bytes promise", *LOSSES, "= realized"),
        lambda row: [
            signed(100 * step)
            for step in (np.log(row["bytes/W"]), *(-row[loss] for loss in LOSSES.values()), np.log(row["speed/W_spec"]))
        ],
        note="100·ln of each ratio, so that a row adds up; −10 is a loss of 9.5 %." + _of_the_drafter(sweep),
        of=lambda row: bool(np.isfinite([row[loss] for loss in LOSSES.values()]).all()),
    )  # fmt: skip


def _of_the_drafter(sweep: Sweep) -> str:
    """A promise of 0 beside a gain asks for words."""
    if not any(row["bytes/W"] == 1 < row["bytes/W_cycle"] for row in sweep.valid):
        return ""
    return " A plain step reads no drafter: what its bytes save is a gain of draft and overhead."
