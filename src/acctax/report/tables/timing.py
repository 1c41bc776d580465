"""Acceptance and time of both arms, side by side."""

from acctax.analyze.sweep import Sweep
from acctax.report.tables.table import Table, per_cell
from acctax.report.tables.text import pair


def timing(sweep: Sweep) -> Table | None:
    return per_cell(
        sweep, "time", "Acceptance and time, reference → candidate",
        ("τ tok/cycle", "α_geo", "c", "T(1) ms", "T(K+1) ms", "plain tok/s", "speculative tok/s"),
        lambda row: (
            pair(row, "accept/tau", 2),
            pair(row, "accept/alpha_geo", 2),
            pair(row, "time/c", 2),
            pair(row, "time/T1_ms", 1),
            pair(row, "time/T_verify_ms", 1),
            pair(row, "speed/tok_s_ar", 1),
            pair(row, "speed/tok_s", 1),
        ),
        note="τ: committed tokens per cycle. α_geo: the constant acceptance that gives it. "
             "c: one draft over T(1). T(M): a target pass over M rows.",
    )  # fmt: skip
