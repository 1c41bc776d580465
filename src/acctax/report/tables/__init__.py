"""The tables of a sweep, one file each: built once as text, rendered for the terminal, Markdown, LaTeX and HTML."""

from acctax.report.tables.actions import next_actions
from acctax.report.tables.best_k import best_K
from acctax.report.tables.failed import failed
from acctax.report.tables.interaction import interaction
from acctax.report.tables.predictions import predictions
from acctax.report.tables.rejected import rejected
from acctax.report.tables.same_context import same_context
from acctax.report.tables.table import Table
from acctax.report.tables.tax import taxes
from acctax.report.tables.timing import timing
from acctax.report.tables.tuned_tax import tuned_taxes
from acctax.report.tables.waterfall import waterfall
from acctax.report.tables.wins import wins

__all__ = [
    "Table", "best_K", "failed", "interaction", "next_actions", "predictions", "rejected", "same_context", "taxes",
    "timing", "tuned_taxes", "waterfall", "wins",
]  # fmt: skip
