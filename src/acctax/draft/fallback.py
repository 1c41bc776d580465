"""Two sources, one after the other: the second drafts where the first has nothing to say."""

from collections.abc import Sequence

from torch import Tensor

from acctax.draft.on_device import DeviceDraw, DeviceText
from acctax.draft.source import Draft, DraftSource, Draw, Proposal


class FallbackSource(DraftSource):
    """Both follow the whole text. What the first one's cycles commit waits in the second until it drafts again."""

    def __init__(self, first: DraftSource, second: DraftSource):
        self.first, self.second = first, second
        self.wants, self.drafts_on_device = second.wants, second.drafts_on_device
        self.drafted = {first: 0, second: 0}  # tokens

    def begin(self, prompt: list[int], seed: int, features: Tensor | None) -> None:
        self.first.begin(prompt, seed, None)
        self.second.begin(prompt, seed, features)

    def draft(self, K: int, draw: Draw, along: Sequence[int] | None = None) -> Draft:
        draft, source = self.first.draft(K, draw, along), self.first
        if not draft.tokens:
            draft, source = self.second.draft(K, draw, along), self.second
        self.drafted[source] += len(draft.tokens)
        return draft

    def accept(self, n: int) -> None:
        self.first.accept(n)
        self.second.accept(n)

    def process(self, tokens: list[int], features: Tensor | None) -> None:
        self.first.process(tokens, None)
        self.second.process(tokens, features)

    def propose(self, K: int, ready: bool) -> Proposal:
        proposal, source = self.first.propose(K, ready), self.first
        if not proposal.tokens:
            proposal, source = self.second.propose(K, ready), self.second
        self.drafted[source] += K if proposal.tokens is None else len(proposal.tokens)
        return proposal

    def follow_text(self, tokens: list[int]) -> None:
        self.first.follow_text(tokens)
        self.second.follow_text(tokens)

    def draft_on_device(self, K: int, rows: int, text: DeviceText, draw: DeviceDraw) -> tuple[Tensor, Tensor | None]:
        return self.second.draft_on_device(K, rows, text, draw)

    def bytes_per_draft(self, context: int) -> float:
        """The mean over the tokens drafted so far, whoever drafted them."""
        total = sum(self.drafted.values())
        return sum(n * source.bytes_per_draft(context) for source, n in self.drafted.items()) / max(total, 1)
