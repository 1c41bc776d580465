"""n-gram look-up: what followed the last n tokens earlier in the text.

The longest n in [min_n, max_n] that occurs wins; of its occurrences the earliest (as vLLM does) or the latest. The
draft is what follows it, up to K tokens, and ends at the text's end. Where no n-gram occurs a head may draft instead.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from torch import Tensor

from acctax.draft.choice import Choice, Setting
from acctax.draft.eagle import EagleDraft
from acctax.draft.fallback import FallbackSource
from acctax.draft.heads.choice import HeadDraft
from acctax.draft.mtp import MtpDraft
from acctax.draft.source import Draft, DraftSource, Draw
from acctax.schema import require

Match = Literal["earliest", "latest"]


@dataclass(frozen=True)
class NgramDraft(Choice):
    min_n: int | None  # None: `least_n` says
    max_n: int
    match: Match
    fallback: Literal["mtp", "eagle"] | None = None
    path: str | None = None  # of the fallback, as of that source
    kind: Literal["ngram"] = "ngram"

    def __post_init__(self) -> None:
        require(self.min_n is None or self.min_n >= 1, "draft_source.min_n", self.min_n, "must be at least 1")
        require((self.min_n or 1) <= self.max_n, "draft_source.min_n", self.min_n or 1,
                f"must be at most draft_source.max_n ({self.max_n})")  # fmt: skip
        require(self.path is None or self.fallback is not None, "draft_source.path", self.path,
                "must be null without draft_source.fallback")  # fmt: skip

    @property
    def least_n(self) -> int:
        """Where a head would draft instead, one matching token does not suffice: τ(3) with SmolLM2's EAGLE-3 head on
        greedy MT-bench text is 1.78 alone, 1.75 with look-up from one token on, 1.87 from two, 1.86 from three."""
        return self.min_n or min(2 if self.fallback else 1, self.max_n)

    @property
    def head(self) -> HeadDraft | None:
        kinds = {"mtp": MtpDraft, "eagle": EagleDraft}
        return kinds[self.fallback](self.path) if self.fallback else None

    @property
    def takes_recipe(self) -> bool:
        return self.head is not None

    @property
    def label(self) -> str:
        own = f"ngram:{self.least_n}-{self.max_n}:{self.match}"
        return f"{own}+{self.head.label}" if self.head else own

    @property
    def fingerprint(self) -> tuple[str, ...]:
        return self.head.fingerprint if self.head else ()

    def check(self, setting: Setting) -> None:
        if self.head:
            self.head.check(setting)

    def build(self, setting: Setting) -> DraftSource:
        source = NgramSource(self.least_n, self.max_n, self.match)
        return FallbackSource(source, self.head.build(setting)) if self.head else source


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

    def begin(self, prompt: list[int], seed: int, features: Tensor | None) -> None:
        self.text = list(prompt)

    def draft(self, K: int, draw: Draw, along: Sequence[int] | None = None) -> Draft:
        return Draft(look_up(self.text, self.min_n, self.max_n, K, self.match))

    def accept(self, n: int) -> None: ...

    def process(self, tokens: list[int], features: Tensor | None) -> None:
        self.text += tokens

    def bytes_per_draft(self, context: int) -> float:
        return 0.0  # the text itself: a few hundred bytes beside the weights' hundred million
