"""The ranking of next actions for the best configuration, those that lose at the end."""

from collections.abc import Sequence

import numpy as np

from acctax.analyze.actions import Action
from acctax.report.tables.table import Table
from acctax.report.tables.text import NONE, number, percent


def next_actions(actions: Sequence[Action]) -> Table | None:
    if not actions:
        return None
    return Table(
        "actions", "Next actions for the best configuration",
        ("lever", "tok/s", "gain", "95 % interval", "known by"),
        tuple((_cells(action),) for action in actions),
        note="tok/s: in the minutes in which the best configuration was measured. measured: the gain of cells of this "
             "sweep over plain decoding in their own jobs, against the best's; undecided: its interval contains 0. "
             "predicted: from the ledger, the clock and same-context acceptance. bound: nothing can do better.",
    )  # fmt: skip


def _cells(action: Action) -> tuple[str, ...]:
    interval = NONE if np.isnan(action.low) else f"{percent(action.low)} to {percent(action.high)}"
    return (
        action.name,
        number(action.tok_s, 1),
        percent(action.gain),
        interval,
        ", ".join(filter(None, [action.known, _standing(action)])),
    )


def _standing(action: Action) -> str:
    if action.known == "measured" and not (action.low > 0 or action.high < 0):  # no interval tells nothing either
        return "undecided"
    return "rejected" if action.gain < 0 else ""
