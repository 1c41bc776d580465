"""A head as the drafter.

A row of the head is a pair: a token, and the state of the position before it, which that token came from. h is the
target's state, g the head's own, recycled. Text t1 … tL, of which the target has read t1 … t(L−1):

    begin(t1 … tL)      features   h1      h2      …   h(L−1)
                        tokens     t2      t3      …   tL            the row of tL predicts t(L+1)
    draft(K, …)         (hL−1, tL) → d1     (g, d1) → d2     …     (g, d(K−1)) → dK           K passes
    verified            the target reads tL d1 … dK: hL … h(L+K), and keeps n drafts and one token t' of its own
    accept(n)           forgets the rows of d1 … d(K−1): their states were the head's own
    process             features   hL      h(L+1)  …   h(L+n−1)  h(L+n)   (rows beyond belong to drafts not kept)
                        tokens     d1      d2      …   dn        t'
                        these n + 1 rows wait, and are read in the first pass of the next draft

    draft_on_device     reads all rows that were verified, drafts that were not kept among them; row n is of t'. The
                        rows beyond, of drafts not kept, are overwritten by the next

Row i of the cache is the pair (h(i+1), t(i+2)), whatever the target's positions are called: rotary is relative.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from acctax.draft.heads.head import Head
from acctax.draft.on_device import DeviceDraw, DeviceSource, DeviceText, joined
from acctax.draft.source import Draft, Draw


class HeadSource(DeviceSource):
    def __init__(self, head: Head, vocab: int):
        """vocab: the target's, which laws are over."""
        self.head, self.vocab = head, vocab
        self.wants = head.config.states
        self.cache = head.new_cache()
        self.generator = torch.Generator()

    def begin(self, prompt: list[int], seed: int, features: Tensor | None) -> None:
        self.generator.manual_seed(seed)
        self.cache.roll_back(0)
        if len(prompt) > 2:
            self.head.forward(prompt[1:-1], self.head.state_of(features[:-1]), self.cache)
        self.known = self.cache.length  # rows whose states were the target's
        # of the pairs that wait; after a prompt of one token there is none
        self.tokens, self.features = prompt[1:][-1:], [] if features is None else [features[-1:]]

    def draft(self, K: int, draw: Draw, along: Sequence[int] | None = None) -> Draft:
        if K == 0 or not self.tokens:
            return Draft([])
        drafted, laws = [], []
        feed, state = self.tokens, self.head.state_of(torch.cat(self.features))
        self.known += len(feed)
        self.tokens, self.features = [], []
        for k in range(K):
            logits, state = self.head.forward(feed, state, self.cache)
            token, law = self._known(*draw(logits[0], self.generator))
            drafted.append(token)
            laws.append(law)
            feed = [along[k] if along else token]
        return Draft(drafted, None if laws[0] is None else torch.stack(laws))

    def accept(self, n: int) -> None:
        self.cache.roll_back(self.known)

    def process(self, tokens: list[int], features: Tensor | None) -> None:
        self.tokens += tokens
        self.features.append(features[: len(tokens)])

    def draft_on_device(self, K: int, rows: int, text: DeviceText, draw: DeviceDraw) -> tuple[Tensor, Tensor | None]:
        tokens, state = text.committed[:rows], self.head.state_of(text.features[:rows])
        start = text.position - 1 - text.accepted.int()  # of the first row that waits
        logits, state = self.head.forward(tokens, state, self.cache, start, text.accepted)
        drawn = []
        for k in range(K):
            if k:
                logits, state = self.head.forward(drawn[-1][0], state, self.cache, text.position + (k - 1))
            drawn.append(self._known_on_device(*draw(logits, k)))
        return joined(drawn, self.head.device)

    def bytes_per_draft(self, context: int) -> float:
        return self.head.bytes_per_pass(context)

    def _known(self, token: int, law: Tensor | None) -> tuple[int, Tensor | None]:
        """A token and a law of the draft vocabulary → the same of the target's [vocab], 0 outside the head's."""
        if self.head.ids is None:
            return token, law
        if law is not None:
            law = law.new_zeros(self.vocab).index_copy(0, self.head.ids, law)
        return int(self.head.ids[token]), law

    def _known_on_device(self, token: Tensor, law: Tensor | None) -> tuple[Tensor, Tensor | None]:
        if self.head.ids is None:
            return token, law
        if law is not None:
            law = law.new_zeros(1, self.vocab).index_copy(1, self.head.ids, law)
        return self.head.ids.index_select(0, token), law
