"""No drafts: plain autoregressive decoding, the cycle with K = 0."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from torch import Tensor

from acctax.draft.choice import Choice, Setting
from acctax.draft.source import Draft, DraftSource, Draw


@dataclass(frozen=True)
class NoDraft(Choice):
    kind: Literal["none"] = "none"

    def build(self, setting: Setting) -> "NoSource":
        return NoSource()


class NoSource(DraftSource):
    def begin(self, prompt: list[int], seed: int, features: Tensor | None) -> None: ...

    def draft(self, K: int, draw: Draw, along: Sequence[int] | None = None) -> Draft:
        return Draft([])

    def accept(self, n: int) -> None: ...

    def process(self, tokens: list[int], features: Tensor | None) -> None: ...

    def bytes_per_draft(self, context: int) -> float:
        return 0.0
