"""Acceptance as given, to clock two configurations at equal τ: speed alone, free of what either one's drafts are worth.

Each draft comes with the number of its tokens that are to be kept, and the rule (`decode.rules.Forced`) keeps them,
whatever the target thinks of them. Everything else is real: the target verifies K+1 rows and chooses the token that
follows. So the text is nobody's: it is made of drafts, random or an imitated drafter's, with the target's own token
after each cycle's. It says nothing of either model, ends at no stop token, and is not judged.

Lengths are drawn from the prompt's own seed: both arms of a cell keep equally many, cycle by cycle.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import accumulate, cycle, islice
from operator import mul
from pathlib import Path
from typing import ClassVar, Literal

import torch
from torch import Tensor

from acctax.config import DraftChoice
from acctax.draft.choice import Choice, Setting
from acctax.draft.none import NoSource
from acctax.draft.on_device import DeviceDraw, DeviceText
from acctax.draft.source import Draft, DraftSource, Draw, Proposal
from acctax.errors import ConfigError
from acctax.record import Record
from acctax.schema import require

Lengths = Callable[[torch.Generator], Iterator[int]]  # a prompt's generator → drafts to keep, cycle by cycle


@dataclass(frozen=True)
class SyntheticDraft(Choice):
    acceptance: tuple[float, ...]
    replay: str | None = None
    like: DraftChoice | None = None
    kind: Literal["synthetic"] = "synthetic"
    forces_acceptance: ClassVar[bool] = True

    def __post_init__(self) -> None:
        require(len(self.acceptance) > 0, "draft_source.acceptance", "[]", "must hold a number for each draft")
        for i, a in enumerate(self.acceptance):
            require(0 <= a <= 1, f"draft_source.acceptance[{i}]", a, "must lie in 0 to 1")
        like = self.like.kind if self.like else None
        require(like not in ("none", "synthetic"), "draft_source.like.kind", like, "must be a source that drafts")

    @property
    def label(self) -> str:
        given = self.replay or ",".join(f"{a:g}" for a in self.acceptance)
        return f"{self.kind}:{given}" + (f"+{self.like.label}" if self.like else "")

    @property
    def takes_recipe(self) -> bool:
        return bool(self.like and self.like.takes_recipe)

    @property
    def brings_recipe(self) -> bool:
        return bool(self.like and self.like.brings_recipe)

    @property
    def fingerprint(self) -> tuple[str, ...]:
        like = self.like.fingerprint if self.like else ()
        return (*like, str(self.recorded)) if self.replay else like

    @property
    def most_drafts(self) -> int:
        return self.recorded[0] if self.replay else len(self.acceptance)

    @cached_property
    def recorded(self) -> tuple[int, list[int]]:
        """K of the replayed record, and the accept lengths of its reference, cycle after cycle, prompt after prompt."""
        try:
            record = Record.from_json(Path(self.replay).expanduser().read_text(encoding="utf-8"))
            return int(record.choices["K"]), [n for prompt in record.reference.prompts for n in prompt.accepted]
        except (OSError, ValueError, KeyError, TypeError) as error:
            wanted = f"must be the record.json of a measured cell ({type(error).__name__}: {error})"
            raise ConfigError("draft_source.replay", self.replay, wanted) from error

    def check(self, setting: Setting) -> None:
        if self.like:
            self.like.check(setting)

    def build(self, setting: Setting) -> "SyntheticSource":
        like = self.like.build(setting) if self.like else NoSource()
        lengths = replayed(self.recorded[1]) if self.replay else drawn(self.acceptance)
        return SyntheticSource(lengths, like, setting.target.config.vocab)


def drawn(acceptance: Sequence[float]) -> Lengths:
    """The i-th draft is kept with probability acceptance[i], given that all before it were."""
    reach = torch.tensor(list(accumulate(acceptance, mul)))  # P(at least i drafts are kept), i = 1, 2, …

    def lengths(generator: torch.Generator) -> Iterator[int]:
        while True:
            yield int((torch.rand(1, generator=generator) < reach).sum())

    return lengths


def replayed(recorded: Sequence[int]) -> Lengths:
    """The recorded lengths in their order, over and over; each prompt begins somewhere among them."""

    def lengths(generator: torch.Generator) -> Iterator[int]:
        start = int(torch.randint(len(recorded), (1,), generator=generator))
        return islice(cycle(recorded), start, None)

    return lengths


class SyntheticSource(DraftSource):
    def __init__(self, law: Lengths, like: DraftSource, vocab: int):
        """like: whose passes are made and whose drafts are proposed; what it leaves open is filled by random tokens."""
        self.law, self.like, self.vocab = law, like, vocab
        self.wants, self.drafts_on_device = like.wants, like.drafts_on_device
        self.generator, self.tokens = torch.Generator(), torch.Generator()  # of lengths, whatever K is, and of tokens

    def begin(self, prompt: list[int], seed: int, features: Tensor | None) -> None:
        self.tokens.manual_seed(seed)
        self.lengths = self.law(self.generator.manual_seed(seed + 1))
        self.like.begin(prompt, seed, features)

    def draft(self, K: int, draw: Draw, along: Sequence[int] | None = None) -> Draft:
        draft = self.like.draft(K, draw, along)
        if filling := self._filling(K - len(draft.tokens)):
            draft = Draft(draft.tokens + filling)
        return replace(draft, kept=min(next(self.lengths), K))

    def accept(self, n: int) -> None:
        self.like.accept(n)

    def process(self, tokens: list[int], features: Tensor | None) -> None:
        self.like.process(tokens, features)

    def propose(self, K: int, ready: bool) -> Proposal:
        tokens = self.like.propose(K, ready).tokens
        if tokens is not None:
            tokens = tokens + self._filling(K - len(tokens))
        return Proposal(tokens, min(next(self.lengths), K))

    def follow_text(self, tokens: list[int]) -> None:
        self.like.follow_text(tokens)

    def draft_on_device(self, K: int, rows: int, text: DeviceText, draw: DeviceDraw) -> tuple[Tensor, Tensor | None]:
        return self.like.draft_on_device(K, rows, text, draw)

    def _filling(self, places: int) -> list[int]:
        return torch.randint(self.vocab, (places,), generator=self.tokens).tolist()

    def bytes_per_draft(self, context: int) -> float:
        return self.like.bytes_per_draft(context)
