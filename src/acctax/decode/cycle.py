"""The decoding cycle."""

from collections.abc import Collection
from dataclasses import dataclass
from time import perf_counter

import torch
from torch import Tensor

from acctax.decode.rules import Rule
from acctax.draft.source import DraftSource
from acctax.models.decoder import Decoder


@dataclass(frozen=True, slots=True)
class Cycle:
    """What one cycle did, and the seconds it took."""

    drafted: int
    accepted: int  # by the rule, before the cut
    committed: int  # kept after the cut at a stop token or at the cap
    draft_seconds: float
    seconds: float


class Generation:
    """One text being written. Of its last token the target has not yet computed keys and values."""

    def __init__(self, target: Decoder, source: DraftSource, rule: Rule, stop_tokens: Collection[int] = ()):
        self.target, self.source, self.rule, self.stop_tokens = target, source, rule, stop_tokens
        self.cache = target.new_cache()
        self.generator = torch.Generator()

    def begin(self, prompt: list[int], seed: int, max_new_tokens: int) -> Tensor | None:
        """Read the prompt; returns the features that the source got.

        `seed` is the prompt's own: it depends neither on K nor on other prompts.
        """
        self.generator.manual_seed(seed)
        self.text = list(prompt)
        self.end = min(len(prompt) + max_new_tokens, self.cache.capacity)
        self.stopped = self.capped = False
        self.cache.roll_back(0)
        features = self._pass(prompt[:-1], last=1)[1] if len(prompt) > 1 else None
        self.source.begin(prompt, seed + 1, features)
        return features

    @property
    def finished(self) -> bool:
        return self.stopped or len(self.text) >= self.end

    def cycle(self, K: int) -> Cycle:
        """Draft, verify in one pass, accept, commit, roll back."""
        start = perf_counter()
        draft = self.source.draft(min(K, self.cache.capacity - len(self.text)), self.rule.draw)
        drafted = perf_counter()
        logits, features = self._pass([self.text[-1], *draft.tokens])  # [K+1, vocab]
        n, token = self.rule.accept(logits, draft, self.generator)
        committed = self._cut([*draft.tokens[:n], token])
        self.text += committed
        self.cache.roll_back(len(self.text) - 1)
        self.source.accept(min(n, len(committed) - 1))  # of a text that was cut the last token is the one that follows
        self.source.process(committed, features)
        end = perf_counter()
        return Cycle(len(draft.tokens), n, len(committed), drafted - start, end - start)

    def pass_seconds(self, rows: int) -> float:
        """A target pass over `rows` new rows, which are then forgotten. Which tokens they are costs nothing."""
        length = self.cache.length
        start = perf_counter()
        self.target.forward(self.text[-1:] * rows, self.cache)
        end = perf_counter()
        self.cache.roll_back(length)
        return end - start

    def _pass(self, tokens: list[int], last: int | None = None) -> tuple[Tensor, Tensor | None]:
        """The target's logits, and features [M, states · hidden] of all its rows where the source wants some."""
        states = dict.fromkeys(self.source.wants)
        logits = self.target.forward(tokens, self.cache, last, states)
        return logits, torch.cat(list(states.values()), dim=1) if states else None

    def _cut(self, tokens: list[int]) -> list[int]:
        """Up to the first stop token, inclusive, and then to the cap: a stop hidden beyond the cap does not count."""
        for i, token in enumerate(tokens):
            if token in self.stop_tokens:
                tokens = tokens[: i + 1]
                self.stopped = True
                break
        room = self.end - len(self.text)
        if len(tokens) > room:
            tokens, self.capped = tokens[:room], True
            self.stopped = tokens[-1] in self.stop_tokens
        return tokens
