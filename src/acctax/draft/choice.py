"""What may be chosen as a draft source, and what such a source is built beside."""

from dataclasses import dataclass

from acctax.config import DraftChoice, Recipe
from acctax.draft.source import DraftSource
from acctax.models.checkpoint import Checkpoint


@dataclass(frozen=True)
class Setting:
    target: Checkpoint
    drafter_quant: Recipe | None  # None: the source's own format
    capacity: int  # the longest text in tokens
    device: str = "cpu"


class Choice(DraftChoice):
    """The fields of an option of conf/draft_source, and the source that they describe."""

    def check(self, setting: Setting) -> None:
        """Raises ConfigError where the drafter does not fit its target; reads no weights."""

    def build(self, setting: Setting) -> DraftSource:
        raise NotImplementedError
