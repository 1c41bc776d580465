"""A reduced draft vocabulary: which target id each draft id stands for."""

import torch
from torch import Tensor

from acctax.draft.heads.config import HeadConfig
from acctax.draft.heads.files import HeadFiles


def draft_ids(files: HeadFiles, config: HeadConfig) -> Tensor | None:
    """[draft_vocab] target ids; None where the vocabulary is the target's.

    d2t [draft_vocab] holds offsets: target id = i + d2t[i]; t2d [vocab] marks the same ids. Raises ConfigError where
    they do not agree, or leave the vocabulary.
    """
    size, vocab, names = config.draft_vocab, config.block.vocab, config.names
    if "d2t" not in names:
        files.require("t2d" not in names, "tensor", "d2t", "is missing beside t2d")
        files.require(size == vocab, "draft_vocab_size", size, f"must be the vocabulary's {vocab} without a tensor d2t")
        return None
    offsets = files.tensor(names["d2t"])
    files.require(not offsets.is_floating_point(), "d2t", offsets.dtype, "must hold integers")
    ids = torch.arange(size) + offsets
    inside = bool(((ids >= 0) & (ids < vocab)).all())
    files.require(inside, "d2t", f"{int(ids.min())} to {int(ids.max())}", f"must lead to ids 0 to {vocab - 1}")
    files.require(len(ids.unique()) == size, "d2t", f"{len(ids.unique())} ids", f"must lead to {size} different ids")
    if "t2d" in names:
        marked = files.tensor(names["t2d"]).bool()
        files.require(torch.equal(marked.nonzero()[:, 0], ids.sort().values), "t2d", f"{int(marked.sum())} ids",
                      "must mark the ids that d2t leads to")  # fmt: skip
    return ids
