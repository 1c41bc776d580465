"""What a draft source is: four verbs, called once a cycle in this order.

    begin(prompt)            once a text: forget everything, read the prompt
    draft(K, draw) → Draft   propose up to K tokens, each as the rule draws it from logits
    accept(n)                n of them were accepted: roll your own state back to them
    process(tokens)          what the target committed (the accepted drafts and one more): the text goes on here

A source that drafts from the target's hidden states names them in `wants`, and is handed them with the tokens:
`features` [rows, states · hidden], the states side by side in the order of `wants`. Row j is of the position *before*
tokens[j], whose state tokens[j] came from; of a prompt, row j is of prompt[j], before prompt[j + 1].
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

# logits [vocab], generator → a token and the law [vocab] it was drawn from, None where it was simply the best
Draw = Callable[[Tensor, torch.Generator], tuple[int, Tensor | None]]


@dataclass(frozen=True)
class Draft:
    """tokens, at most K, and q [len(tokens), vocab], the law each was drawn from.

    q is None for tokens that were chosen, not drawn: the acceptance rule then takes the one-hot law. The choice
    cannot be mixed up: a law that exists was sampled from.
    """

    tokens: list[int]
    q: Tensor | None = None
    kept: int | None = None  # of a synthetic draft: how many are to be kept, see `decode.rules.Forced`


class Proposal(NamedTuple):
    """What the host proposes where the cycle is the device's (decode/static.py)."""

    tokens: list[int] | None  # chosen, not drawn; None: the device drafts
    kept: int | None = None  # of a synthetic draft: how many are to be kept


class DraftSource(ABC):
    wants: tuple[int, ...] = ()  # hidden states, as `Decoder.forward` counts them; without any, features is None
    drafts_on_device: bool = False  # it has `draft_on_device` (draft/on_device.py)

    @abstractmethod
    def begin(self, prompt: list[int], seed: int, features: Tensor | None) -> None: ...

    @abstractmethod
    def draft(self, K: int, draw: Draw, along: Sequence[int] | None = None) -> Draft:
        """along [K]: goes on as if these had been drafted, whatever was drawn (a look-up says what it says)."""

    @abstractmethod
    def accept(self, n: int) -> None: ...

    @abstractmethod
    def process(self, tokens: list[int], features: Tensor | None) -> None:
        """Rows of features beyond len(tokens) are of drafts that were not kept."""

    def follow(
        self, text: list[int], start: int, features: Tensor | None, K: int, draw: Draw
    ) -> Iterator[Draft]:
        """What is drafted at each position t = start … len(text) − K of a text that is already there.

        The i-th draft at t stands where text[t + i] does, and has read the text up to there. features, of text[:-1],
        as in `begin`.
        """
        def rows(first: int, last: int) -> Tensor | None:
            return None if features is None else features[first:last]

        self.begin(text[:start], 0, rows(0, start - 1))
        for t in range(start, len(text) - K + 1):
            yield self.draft(K, draw, text[t : t + K])
            self.accept(0)
            self.process(text[t : t + 1], rows(t - 1, t))

    def propose(self, K: int, ready: bool) -> Proposal:
        """At most K drafts, for a cycle that the device makes. ready: there are states of the target to draft from."""
        return Proposal(self.draft(K, _undrawn).tokens)

    def follow_text(self, tokens: list[int]) -> None:
        """What such a cycle committed, for what is proposed by the host."""
        self.accept(len(tokens) - 1)
        self.process(tokens, None)

    @abstractmethod
    def bytes_per_draft(self, context: int) -> float:
        """Bytes read to draft one token after `context` tokens of text, weights in their stored form."""


def _undrawn(logits: Tensor, generator: torch.Generator) -> tuple[int, Tensor | None]:
    raise TypeError("a source that draws its drafts must do so on the device")
