"""n-gram look-up: what followed the last n tokens earlier in the text.

The longest n in [min_n, max_n] that occurs wins; of its occurrences the earliest (as vLLM does) or the latest. The
draft is what follows it, up to K tokens, and ends at the text's end.
"""

from dataclasses import dataclass
from typing import Literal

from acctax.draft.choice import Choice, Setting
from acctax.draft.source import Draft, DraftSource
from acctax.schema import require

Match = Literal["earliest", "latest"]


@dataclass(frozen=True)
class NgramDraft(Choice):
    min_n: int
    max_n: int
    match: Match
    kind: Literal["ngram"] = "ngram"

    def __post_init__(self) -> None:
        require(self.min_n >= 1, "draft_source.min_n", self.min_n, "must be at least 1")
        require(self.min_n <= self.max_n, "draft_source.min_n", self.min_n,
                f"must be at most draft_source.max_n ({self.max_n})")  # fmt: skip

    @property
    def label(self) -> str:
        return f"ngram:{self.min_n}-{self.max_n}:{self.match}"

    def build(self, setting: Setting) -> "NgramSource":
        return NgramSource(self.min_n, self.max_n, self.match)


def look_up(text: list[int], min_n: int, max_n: int, K: int, match: Match) -> list[int]:
    """Up to K tokens that followed an earlier occurrence of the text's last n tokens; empty where there is none."""
    for n in range(min(max_n, len(text) - 1), min_n - 1, -1):
        suffix = text[-n:]
        starts = range(len(text) - n)  # an occurrence before the suffix itself: at least one token follows it
        for start in starts if match == "earliest" else reversed(starts):
            if text[start : start + n] == suffix:
                return text[start + n : start + n + K]
    return []


class NgramSource(DraftSource):
    def __init__(self, min_n: int, max_n: int, match: Match):
        self.min_n, self.max_n, self.match = min_n, max_n, match
        self.text: list[int] = []

    def begin(self, prompt: list[int], seed: int) -> None:
        self.text = list(prompt)

    def draft(self, K: int) -> Draft:
        return Draft(look_up(self.text, self.min_n, self.max_n, K, self.match))

    def accept(self, n: int) -> None: ...

    def process(self, tokens: list[int]) -> None:
        self.text += tokens

    def bytes_per_draft(self, context: int) -> float:
        return 0.0  # the text itself: a few hundred bytes beside the weights' hundred million
