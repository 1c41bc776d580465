"""A multi-token-prediction head: one state of the target and a token, joined before a decoder block."""

from dataclasses import dataclass
from typing import Literal

from acctax.draft.heads.choice import HeadDraft


@dataclass(frozen=True)
class MtpDraft(HeadDraft):
    kind: Literal["mtp"] = "mtp"
