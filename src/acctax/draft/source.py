"""What a draft source is: four verbs, called once a cycle in this order.

    begin(prompt)            once a text: forget everything, read the prompt
    draft(K)      → Draft    propose up to K tokens
    accept(n)                n of them were accepted: roll your own state back to them
    process(tokens)          what the target committed (the accepted drafts and one more): the text goes on here

A source that drafts from the target's hidden states names them in `wants`, and is handed them with the tokens:
`features` [rows, states · hidden], the states side by side in the order of `wants`. Row j is of the position *before*
tokens[j], whose state tokens[j] came from; of a prompt, row j is of prompt[j], before prompt[j + 1].
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass

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


class DraftSource(ABC):
    wants: tuple[int, ...] = ()  # hidden states, as `Decoder.forward` counts them; without any, features is None

    @abstractmethod
    def begin(self, prompt: list[int], seed: int, features: Tensor | None) -> None: ...

    @abstractmethod
    def draft(self, K: int) -> Draft: ...

    @abstractmethod
    def accept(self, n: int) -> None: ...

    @abstractmethod
    def process(self, tokens: list[int], features: Tensor | None) -> None:
        """Rows of features beyond len(tokens) are of drafts that were not kept."""

    @abstractmethod
    def bytes_per_draft(self, context: int) -> float:
        """Bytes read to draft one token after `context` tokens of text, weights in their stored form."""
