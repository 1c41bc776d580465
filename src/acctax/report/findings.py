"""What a report is made of: a sweep, analysed."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from acctax.analyze.actions import Action
from acctax.analyze.sweep import Sweep
from acctax.record import Failure


@dataclass(frozen=True)
class Findings:
    sweep: Sweep
    actions: Sequence[Action] = field(default=())  # by gain
    failures: Sequence[Failure] = field(default=())
