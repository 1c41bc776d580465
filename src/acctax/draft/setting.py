"""What a draft source is built beside."""

from dataclasses import dataclass

from acctax.config import Recipe
from acctax.draft.source import Draw
from acctax.models.checkpoint import Checkpoint


@dataclass(frozen=True)
class Setting:
    target: Checkpoint
    drafter_quant: Recipe | None  # None: the source's own format
    capacity: int  # the longest text in tokens
    draw: Draw
