"""What a draft source is: four verbs, called once a cycle in this order.

    begin(prompt)            once a text: forget everything, read the prompt
    draft(K)      → Draft    propose up to K tokens
    accept(n)                n of them were accepted: roll your own state back to them
    process(tokens)          what the target committed (the accepted drafts and one more): the text goes on here
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
    @abstractmethod
    def begin(self, prompt: list[int], seed: int) -> None: ...

    @abstractmethod
    def draft(self, K: int) -> Draft: ...

    @abstractmethod
    def accept(self, n: int) -> None: ...

    @abstractmethod
    def process(self, tokens: list[int]) -> None: ...

    @abstractmethod
    def bytes_per_draft(self, context: int) -> float:
        """Bytes read to draft one token after `context` tokens of text, weights in their stored form."""
