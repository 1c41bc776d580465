"""Do the target's quantization and the drafter's add up?"""

from acctax.analyze.interaction import interactions
from acctax.analyze.intervals import Estimate
from acctax.analyze.sweep import Sweep
from acctax.report.tables.table import Table


def interaction(sweep: Sweep) -> Table | None:
    """For cells in which both were quantized, where each alone was measured too."""
    found = interactions(sweep)
    if not found:
        return None
    return Table(
        "interaction", "Target and drafter quantized together, log-% of tok/s",
        ("target_quant", "drafter_quant", "K", "target alone", "drafter alone", "both", "beyond the sum"),
        tuple((
            (*(str(its.choices[name]) for name in ("target_quant", "drafter_quant", "K")),
             *map(_log_percent, (its.target, its.drafter, its.both, its.beyond))),
        ) for its in found),
        note="100·ln W_spec. beyond the sum: 0 where the two act apart, above where they help one another.",
    )  # fmt: skip


def _log_percent(e: Estimate) -> str:
    return f"{Estimate(*(100 * end for end in e)):.1f}"
