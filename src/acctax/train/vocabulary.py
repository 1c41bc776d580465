"""The draft vocabulary: the tokens that the answers use most, in ascending order."""

from collections import Counter
from collections.abc import Collection, Iterable
from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class DraftVocabulary:
    ids: Tensor  # [size] target id of each draft id, ascending
    rank: Tensor  # [vocab] draft id of each target id, −1 outside

    @property
    def size(self) -> int:
        return len(self.ids)


def draft_vocabulary(
    answers: Iterable[Iterable[int]], vocab: int, size: int, always: Collection[int]
) -> DraftVocabulary:
    """`always` (stop tokens), then the most frequent; where too few occur, the lowest ids."""
    counts = Counter(token for answer in answers for token in answer)
    frequent = sorted(counts, key=lambda token: (-counts[token], token))
    ranked = list(dict.fromkeys([*always, *frequent, *range(vocab)]))
    return from_ids(torch.tensor(sorted(ranked[:size])), vocab)


def from_ids(ids: Tensor, vocab: int) -> DraftVocabulary:
    rank = torch.full((vocab,), -1)
    rank[ids] = torch.arange(len(ids))
    return DraftVocabulary(ids, rank)
