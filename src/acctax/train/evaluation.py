"""Acceptance by position on text that was never trained on, next to n-gram look-up on the same text.

Chains start at every position of an answer that has enough text after it, and are fed with the target's own text:

    greedy text     a draft counts where it is the target's arg-max and all before it were
    T = 1 text      min(1, q/p) of each text token is the chance that the chain is still alive there, times the overlap
                    of the next draft: its mean over text drawn from p is the acceptance of drafts drawn from q
    n-gram          a draft counts where it is the text's token and all before it were
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from acctax.analyze.intervals import Estimate, estimate, resample, widen
from acctax.draft.ngram import look_up
from acctax.train.chains import Batch, Chains
from acctax.train.features import Stored
from acctax.train.heads import Head
from acctax.train.loss import distance
from acctax.train.material import Material

NGRAM = (1, 3, "earliest")  # min_n, max_n, match: the defaults of draft_source=ngram
RESAMPLES, SEED = 2000, 0
ROWS = 2048  # of text at once


@dataclass(frozen=True)
class Acceptance:
    """Of C conversations: chains started [C], and the sum of what is left of them after each draft [C, K]."""

    chains: NDArray[np.float64]
    alive: NDArray[np.float64]

    @property
    def conditional(self) -> list[float]:
        """Acceptance of each draft, given that all before it were accepted [K]."""
        total = np.concatenate([[self.chains.sum()], self.alive.sum(0)])
        return [float(after / before) if before else float("nan") for before, after in zip(total, total[1:])]

    @property
    def tau(self) -> list[Estimate]:
        """τ with 1 … K drafts, intervals by conversation."""
        weights = resample(len(self.chains), RESAMPLES, np.random.default_rng(SEED))
        with np.errstate(invalid="ignore", divide="ignore"):
            draws = 1 + (weights @ self.alive.cumsum(1)) / (weights @ self.chains)[:, None]
        return [estimate(widen(draws[:, k], len(self.chains))) for k in range(self.alive.shape[1])]


@dataclass(frozen=True)
class Report:
    """One set of texts, one temperature."""

    texts: str  # held_out | evaluate
    rule: str  # greedy | sampled
    head: Acceptance
    ngram: Acceptance

    def metrics(self) -> dict[str, float]:
        name, tau = f"accept/{self.texts}_{self.rule}", self.head.tau
        values = {f"{name}_conditional_{k}": value for k, value in enumerate(self.head.conditional, 1)}
        for k in {min(3, len(tau)), len(tau)}:
            values |= {f"{name}_tau_{k}": tau[k - 1].value, f"{name}_tau_{k}_lo": tau[k - 1].low,
                       f"{name}_tau_{k}_hi": tau[k - 1].high, f"{name}_ngram_tau_{k}": self.ngram.tau[k - 1].value}
        return values


class Evaluator:
    def __init__(self, material: Material, drafts: int):
        self.material, self.drafts = material, drafts
        self.sets = {
            (name, rule): texts
            for name in ("held_out", "evaluate")
            for rule, temperature in (("greedy", 0.0), ("sampled", 1.0))
            if (texts := [s for s in getattr(material.corpus, name) if self._fits(s, temperature)])
        }
        self.ngrams: dict[tuple[str, str], Acceptance] = {}  # they never change

    def _fits(self, stored: Stored, temperature: float) -> bool:
        conversation = stored.conversation
        return conversation.temperature == temperature and conversation.answer_tokens > self.drafts

    def __call__(self, head: Head) -> list[Report]:
        reports = []
        for key, texts in self.sets.items():
            if key not in self.ngrams:
                self.ngrams[key] = ngram_acceptance(texts, self.drafts)
            reports.append(Report(*key, self._head(head, texts, greedy=key[1] == "greedy"), self.ngrams[key]))
        return reports

    @torch.no_grad()
    def _head(self, head: Head, texts: Sequence[Stored], greedy: bool) -> Acceptance:
        chains, alive = [], []
        for group in self.material.grouped(texts, ROWS):
            batch = self.material.batch(group)
            with torch.autocast("cpu", torch.bfloat16, enabled=self.material.autocast):
                left = self._alive(head, batch, greedy)  # [K, starts]
            starts = self._starts(batch)
            owner = torch.searchsorted(torch.tensor([end for _, end in batch.spans]), starts, right=True)
            for i in range(len(group)):
                chains.append(float((owner == i).sum()))
                alive.append(left[:, owner == i].sum(dim=1).tolist())
        return Acceptance(np.array(chains), np.array(alive))

    def _starts(self, batch: Batch) -> Tensor:
        return batch.starts[batch.left[batch.starts] > self.drafts]

    def _alive(self, head: Head, batch: Batch, greedy: bool) -> Tensor:
        """[K, starts]: 1 or 0 where greedy, else the chance that the chain's first drafts are all accepted."""
        material, rows = self.material, self._starts(batch)
        unroll = Chains(head, material.embedding, batch, self.drafts)
        laws = material.laws(batch)
        chance = torch.ones(len(rows))
        left = torch.zeros(self.drafts, len(rows))
        for k in range(self.drafts):
            states = unroll.step(rows)
            text = material.vocabulary.rank[batch.tokens[rows + 2 + k]]
            _, judged = distance(states, material.lm_head, laws, rows + 1 + k, text, torch.ones(len(rows)))
            if greedy:
                chance = chance * (material.vocabulary.ids[judged.best] == batch.best[rows + 1 + k])
                left[k] = chance
            else:
                left[k] = chance * judged.overlap
                chance = chance * judged.accepted
        return left


def ngram_acceptance(texts: Sequence[Stored], drafts: int) -> Acceptance:
    chains, alive = [], []
    for stored in texts:
        conversation = stored.conversation
        tokens, counts = conversation.tokens, np.zeros(drafts)
        first, last = max(conversation.prompt_tokens, 2), len(tokens) - drafts
        for end in range(first, last):  # tokens[:end] is written, tokens[end:] is to come
            for k, draft in enumerate(look_up(tokens[:end], *NGRAM[:2], drafts, NGRAM[2])):
                if draft != tokens[end + k]:
                    break
                counts[k] += 1
        chains.append(float(max(last - first, 0)))
        alive.append(counts)
    return Acceptance(np.array(chains), np.array(alive))
