"""A head's checkpoint, opened for a target: everything about it that can be known before its weights are read."""

from dataclasses import dataclass
from pathlib import Path

from torch import Tensor

from acctax.draft.heads.config import HeadConfig
from acctax.draft.heads.family import Kind, family_of
from acctax.draft.heads.files import HeadFiles
from acctax.draft.heads.vocabulary import draft_ids
from acctax.models.checkpoint import Checkpoint

OF_THE_TARGET = ("model.", "lm_head.")


@dataclass(frozen=True, eq=False)
class HeadCheckpoint:
    files: HeadFiles
    config: HeadConfig
    target: Checkpoint
    ids: Tensor | None  # [draft_vocab] target id of each draft id

    def tensor(self, parameter: str) -> Tensor | None:
        """As stored in the file; None for what the head goes without."""
        name = self.config.names.get(parameter)
        return None if name is None else self.files.tensor(name)

    def embedding(self) -> Tensor:
        """[vocab, hidden], the target's as loaded where the head brings none."""
        own = self.tensor("embedding")
        return self.target.tensors["model.embed_tokens.weight"] if own is None else own

    def lm_head(self) -> Tensor:
        """[draft_vocab, hidden], rows of the target's as loaded where the head brings none."""
        own = self.tensor("lm_head")
        if own is not None:
            return own
        tied = self.target.config.tied
        rows = self.target.tensors["model.embed_tokens.weight" if tied else "lm_head.weight"]
        return rows if self.ids is None else rows[self.ids]


def open_head(folder: Path, kind: Kind, target: Checkpoint) -> HeadCheckpoint:
    """Raises ConfigError, naming the field or the tensor, for a head that is not whole or not this target's."""
    files = HeadFiles(folder)
    config = family_of(files, kind).read(files, target.config)
    _check_sizes(files, config)
    _check_tensors(files, config)
    return HeadCheckpoint(files, config, target, draft_ids(files, config))


def _check_sizes(files: HeadFiles, config: HeadConfig) -> None:
    hidden, size = config.block.hidden, config.state_size
    if not config.wide:
        files.require(hidden == size, "hidden_size", hidden, f"must be the target's, {size}")
    for parameter in ("embedding", "lm_head"):
        fits = hidden == size or parameter in config.names
        files.require(fits, "hidden_size", hidden, f"must be the target's, {size}, where the head has no {parameter}")


def _check_tensors(files: HeadFiles, config: HeadConfig) -> None:
    """Every parameter is in the file, in its shape, and every tensor of the head is a parameter."""
    shapes = config.shapes()
    for parameter, name in config.names.items():
        files.require(name in files.shapes, "tensor", name, "is missing")
        shape = files.shapes[name]
        files.require(shape == shapes[parameter], name, shape, f"must have shape {shapes[parameter]}")
    for name in sorted(files.shapes.keys() - set(config.names.values())):
        of_the_target = bool(config.own) and name.startswith(OF_THE_TARGET) and not name.startswith(config.own)
        files.require(of_the_target, "tensor", name, f"is in the file and nothing of {config.family} uses it")
