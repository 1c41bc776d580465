"""An EAGLE head: EAGLE-3 with several states of the target, or the first EAGLE with its last one."""

from dataclasses import dataclass
from typing import Literal

from acctax.draft.heads.choice import HeadDraft


@dataclass(frozen=True)
class EagleDraft(HeadDraft):
    kind: Literal["eagle"] = "eagle"
