"""How tokens are chosen: the best one, or one drawn from the law. A rule draws drafts and judges them."""

from typing import Protocol

import torch
from torch import Tensor

from acctax.config import Decoding
from acctax.decode.acceptance import accept_greedy, accept_sampled, uniforms
from acctax.decode.sampling import law
from acctax.draft.source import Draft


class Rule(Protocol):
    def draw(self, logits: Tensor, generator: torch.Generator) -> tuple[int, Tensor | None]:
        """logits [vocab] → a token, and the law [vocab] it was drawn from (None: it was the best)."""

    def accept(self, logits: Tensor, draft: Draft, generator: torch.Generator) -> tuple[int, int]:
        """The target's logits [K+1, vocab] after each draft → number of drafts kept, token that follows."""


class Greedy:
    def draw(self, logits: Tensor, generator: torch.Generator) -> tuple[int, None]:
        return int(logits.argmax()), None

    def accept(self, logits: Tensor, draft: Draft, generator: torch.Generator) -> tuple[int, int]:
        return accept_greedy(logits.argmax(dim=-1).tolist(), draft.tokens)


class Sampled:
    def __init__(self, decoding: Decoding):
        self.decoding = decoding

    def draw(self, logits: Tensor, generator: torch.Generator) -> tuple[int, Tensor]:
        q = law(logits, self.decoding)
        return int((q / _exponential(q, generator)).argmax()), q

    def accept(self, logits: Tensor, draft: Draft, generator: torch.Generator) -> tuple[int, int]:
        p = law(logits, self.decoding)
        u = uniforms(len(draft.tokens), generator)
        return accept_sampled(p, draft.q, draft.tokens, u, _exponential(p[0], generator))


def _exponential(like: Tensor, generator: torch.Generator) -> Tensor:
    return torch.empty_like(like).exponential_(generator=generator)


def rule_of(decoding: Decoding) -> Rule:
    return Greedy() if decoding.temperature == 0 else Sampled(decoding)
