"""Free-running acceptance beside the same-context one, which compares like with like once texts part."""

import numpy as np

from acctax.analyze.sweep import Sweep
from acctax.report.tables.table import Table, per_cell
from acctax.report.tables.text import NONE, number, pair

APART = {1: "yes", 0: "no"}


def same_context(sweep: Sweep) -> Table | None:
    return per_cell(
        sweep, "same-context", "Acceptance: each its own text, and both the reference's text",
        ("τ_c/τ_r, own text", "same text", "apart", "α_tv", "TV", "KL nats", "same top-1", "perplexity"),
        lambda row: (
            f"{row.estimate('accept/tau_ratio'):.3f}",
            f"{row.estimate('same/tau_ratio'):.3f}",
            APART.get(row["same/disagrees"], NONE),
            pair(row, "same/alpha_tv", 3),
            number(row["same/tv"], 4),
            number(row["same/kl"], 4),
            f"{100 * row['same/agreement']:.1f} %",
            pair(row, "same/perplexity", 2),
        ),
        note="own text: each arm decodes freely. same text: both score the reference's, position by position. "
             "apart: the two intervals do not touch. α_tv: mean of Σ min(p, q), reference → candidate. "
             "TV, KL, same top-1: the candidate's distribution against the reference's.",
        of=lambda row: bool(np.isfinite(row["same/tv"])),
    )  # fmt: skip
