"""No drafts: plain autoregressive decoding, the cycle with K = 0."""

from acctax.config import NoDraft
from acctax.draft.registry import register
from acctax.draft.setting import Setting
from acctax.draft.source import Draft, DraftSource


@register("none")
class NoSource(DraftSource):
    @classmethod
    def build(cls, choice: NoDraft, setting: Setting) -> "NoSource":
        return cls()

    def begin(self, prompt: list[int], seed: int) -> None: ...

    def draft(self, K: int) -> Draft:
        return Draft([])

    def accept(self, n: int) -> None: ...

    def process(self, tokens: list[int]) -> None: ...

    def bytes_per_draft(self, context: int) -> float:
        return 0.0
