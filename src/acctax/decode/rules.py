"""How tokens are chosen: the best one, or one drawn from the law. A rule draws drafts and judges them."""

from typing import Protocol

import torch
from torch import Tensor

from acctax import ops
from acctax.config import Decoding
from acctax.decode.acceptance import accept_greedy, accept_sampled, uniforms
from acctax.decode.sampling import law
from acctax.draft.source import Draft

GREEDY = Decoding("greedy", temperature=0.0, top_k=0, top_p=1.0)


class Rule(Protocol):
    decoding: Decoding

    def draw(self, logits: Tensor, generator: torch.Generator) -> tuple[int, Tensor | None]:
        """logits [vocab] → a token, and the law [vocab] it was drawn from (None: it was the best)."""

    def accept(self, logits: Tensor, draft: Draft, generator: torch.Generator) -> tuple[int, int]:
        """The target's logits [K+1, vocab] after each draft → number of drafts kept, token that follows."""


class Greedy:
    decoding = GREEDY

    def draw(self, logits: Tensor, generator: torch.Generator) -> tuple[int, None]:
        return int(ops.argmax(logits[None])), None

    def accept(self, logits: Tensor, draft: Draft, generator: torch.Generator) -> tuple[int, int]:
        return accept_greedy(ops.argmax(logits).tolist(), draft.tokens)


class Sampled:
    def __init__(self, decoding: Decoding):
        self.decoding = decoding

    def draw(self, logits: Tensor, generator: torch.Generator) -> tuple[int, Tensor]:
        q = law(logits, self.decoding)
        return ops.pick(q, float(uniforms(1, generator))), q

    def accept(self, logits: Tensor, draft: Draft, generator: torch.Generator) -> tuple[int, int]:
        p = law(logits, self.decoding)
        return accept_sampled(p, draft.q, draft.tokens, uniforms(len(p), generator).tolist())


class Forced:
    """Keeps as many drafts as each says (`Draft.kept`), at the cost of judging them; `rule` draws what follows."""

    def __init__(self, rule: Rule):
        self.rule, self.decoding = rule, rule.decoding

    def draw(self, logits: Tensor, generator: torch.Generator) -> tuple[int, Tensor | None]:
        return self.rule.draw(logits, generator)

    def accept(self, logits: Tensor, draft: Draft, generator: torch.Generator) -> tuple[int, int]:
        judged = self.rule.accept(logits, draft, generator)
        if draft.kept is None:  # plain decoding
            return judged
        return draft.kept, self.rule.accept(logits[draft.kept : draft.kept + 1], Draft([]), generator)[1]


def rule_of(decoding: Decoding) -> Rule:
    return Greedy() if decoding.temperature == 0 else Sampled(decoding)
