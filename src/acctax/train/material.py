"""What every step of training and evaluation works with: texts, the target's frozen parts, the draft vocabulary."""

from collections.abc import Iterable, Iterator, Sequence

import torch
from torch import Tensor

from acctax.models.checkpoint import Checkpoint
from acctax.train.chains import Batch, pack
from acctax.train.corpus import Corpus
from acctax.train.features import Stored, read_features
from acctax.train.loss import law
from acctax.train.vocabulary import DraftVocabulary


class Material:
    def __init__(self, checkpoint: Checkpoint, corpus: Corpus, vocabulary: DraftVocabulary, columns: slice,
                 dtype: torch.dtype = torch.bfloat16):
        """columns: of the data's rows those that the head takes, the last state included."""
        tensors, config = checkpoint.tensors, checkpoint.config
        self.corpus, self.vocabulary, self.columns, self.dtype = corpus, vocabulary, columns, dtype
        self.hidden = config.hidden
        self.embedding = tensors["model.embed_tokens.weight"].to(dtype)
        rows = self.embedding if config.tied else tensors["lm_head.weight"].to(dtype)
        self.lm_head = rows[vocabulary.ids].contiguous()

    @property
    def autocast(self) -> bool:
        return self.dtype == torch.bfloat16

    def batch(self, texts: Iterable[Stored]) -> Batch:
        read = []
        for stored in texts:
            its = stored.conversation
            features = read_features(stored, self.corpus.width, self.columns).to(self.dtype)
            read.append((its.tokens, features, its.lse, its.best, its.prompt_tokens))
        return pack(read)

    def laws(self, batch: Batch) -> Tensor:
        """[R, draft vocabulary] the target's law after each row of an answer; other rows are never asked for."""
        rows = batch.starts + 1
        laws = torch.empty(len(batch.tokens), self.vocabulary.size, dtype=torch.bfloat16)
        laws[rows] = law(batch.features[rows, -self.hidden :], self.lm_head, batch.lse[rows])
        return laws

    @staticmethod
    def grouped(texts: Sequence[Stored], rows: int) -> Iterator[list[Stored]]:
        """In order, at least one and at most about `rows` rows a group."""
        group, filled = [], 0
        for stored in texts:
            group.append(stored)
            filled += len(stored.conversation.tokens)
            if filled >= rows:
                yield group
                group, filled = [], 0
        if group:
            yield group
