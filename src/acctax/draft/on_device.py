"""Drafting without a decision of the host: ops alone, on memory whose address stays, so that a GPU can replay them.

What has to be computed and how much of it may then not depend on how many drafts the last cycle kept. So whatever may
be new is computed again at a fixed shape, and what counts of it is taken by an index that only the device knows: a row
has the same bits in whatever company it is computed.
"""

from abc import abstractmethod
from collections.abc import Callable

import torch
from torch import Tensor

from acctax.draft.source import DraftSource, Proposal

# logits [1, vocab], number i of the draft → a token [1] and the law [1, vocab] it was drawn from, None: it was the best
DeviceDraw = Callable[[Tensor, int], tuple[Tensor, Tensor | None]]


class DeviceText:
    """What the device knows of a text between two cycles."""

    def __init__(self, most_drafts: int, states: int, dtype: torch.dtype, device: torch.device):
        """states: numbers in a row of features, 0: the source wants none."""
        self.position = torch.zeros(1, dtype=torch.int32, device=device)  # of the last token, whose row no cache has
        self.tail = torch.zeros(2, dtype=torch.int64, device=device)  # the last two tokens
        self.accepted = torch.zeros(1, dtype=torch.int64, device=device)  # n of the last cycle
        self.committed = torch.zeros(most_drafts + 1, dtype=torch.int64, device=device)  # its n + 1 tokens, then others
        self.features = torch.zeros(most_drafts + 1, states, dtype=dtype, device=device)  # a row before each of them
        self._pair = torch.arange(2, device=device)

    def place(self, tokens: list[int], accepted: int) -> None:
        """tokens: the whole text, of which the last cycle committed accepted + 1."""
        device = self.tail.device
        self.position.fill_(len(tokens) - 1)
        self.tail.copy_(torch.tensor((tokens[-1:] + tokens)[-2:] if len(tokens) < 2 else tokens[-2:], device=device))
        self.accepted.fill_(accepted)

    def advance(self, report: Tensor, features: Tensor | None) -> None:
        """report [K + 2]: what `ops.verify` says; features [K + 1, states · hidden] of the rows that were verified."""
        n, tokens = report[:1], report[1:].clamp_min(0)
        self.committed[: len(tokens)].copy_(tokens)
        self.tail.copy_(torch.cat([self.tail[1:], tokens]).index_select(0, n + self._pair))
        self.position.add_(n + 1)
        self.accepted.copy_(n)
        if features is not None:
            self.features[: len(features)].copy_(features)

    def snapshot(self) -> list[Tensor]:
        return [part.clone() for part in self._parts()]

    def restore(self, snapshot: list[Tensor]) -> None:
        for part, saved in zip(self._parts(), snapshot):
            part.copy_(saved)

    def _parts(self) -> tuple[Tensor, ...]:
        return self.position, self.tail, self.accepted, self.committed, self.features


class DeviceSource(DraftSource):
    """A source whose drafts the device makes."""

    drafts_on_device = True

    def propose(self, K: int, ready: bool) -> Proposal:
        return Proposal(None if ready else [])

    def follow_text(self, tokens: list[int]) -> None: ...

    @abstractmethod
    def draft_on_device(self, K: int, rows: int, text: DeviceText, draw: DeviceDraw) -> tuple[Tensor, Tensor | None]:
        """Read what is new of the text, of which `rows` were verified last, and draft K tokens, none included.

        → tokens int64 [K], and the laws [K, vocab] they were drawn from, None where they were simply the best.
        """


def joined(drawn: list[tuple[Tensor, Tensor | None]], device: torch.device) -> tuple[Tensor, Tensor | None]:
    """Tokens and laws of one draft after the other."""
    if not drawn:
        return torch.zeros(0, dtype=torch.int64, device=device), None
    tokens, laws = zip(*drawn)
    return torch.cat(tokens), None if laws[0] is None else torch.cat(laws)
