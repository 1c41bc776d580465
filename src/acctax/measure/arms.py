"""The two arms of a cell: reference and candidate, each a target, a draft source and a rule."""

from dataclasses import dataclass

from acctax.config import Cell
from acctax.decode.cycle import Generation
from acctax.decode.rules import Forced, Rule, rule_of
from acctax.decode.static import StaticGeneration
from acctax.draft.choice import Setting
from acctax.draft.none import NoSource
from acctax.draft.source import DraftSource
from acctax.models.checkpoint import Checkpoint, open_checkpoint
from acctax.models.decoder import Decoder
from acctax.models.ledger import pass_bytes


@dataclass(frozen=True)
class Arm:
    target: Decoder
    source: DraftSource
    rule: Rule
    stop_tokens: frozenset[int]
    K: int = 0

    def speculative(self) -> Generation:
        return self._generation(self.source)

    def plain(self) -> Generation:
        return self._generation(NoSource())

    def _generation(self, source: DraftSource) -> Generation:
        """A GPU must not wait for the host; a CPU is the host, and computes no row twice."""
        if self.target.device.type == "cuda":
            return StaticGeneration(self.target, source, self.rule, self.stop_tokens, self.K)
        return Generation(self.target, source, self.rule, self.stop_tokens)

    def bytes_ar(self, context: int) -> dict[str, float]:
        """Component → bytes of a plain step after `context` tokens."""
        return pass_bytes(self.target, 1, context)

    def bytes_cycle(self, K: int, context: int) -> dict[str, float]:
        """The same of a cycle: a pass over K+1 rows and K passes of the drafter."""
        return pass_bytes(self.target, K + 1, context) | {"drafter": K * self.source.bytes_per_draft(context)}


def build_arm(cell: Cell, capacity: int) -> Arm:
    """The arm that a cell's choices describe: `cell` itself or `cell.reference()`."""
    checkpoint = open_checkpoint(cell.target)
    setting = setting_of(cell, checkpoint, capacity)
    target = Decoder.load(checkpoint, cell.target_quant, capacity, device=cell.device.name)
    source = cell.draft_source.build(setting) if cell.K else NoSource()
    if cell.draft_source.forces_acceptance:  # a text that nobody chose: a stop token in it ends nothing
        return Arm(target, source, Forced(rule_of(cell.decoding)), frozenset(), cell.K)
    return Arm(target, source, rule_of(cell.decoding), checkpoint.stop_tokens, cell.K)


def setting_of(cell: Cell, checkpoint: Checkpoint, capacity: int) -> Setting:
    return Setting(checkpoint, cell.drafter_quant, capacity, cell.device.name)
