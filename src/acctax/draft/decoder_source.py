"""A decoder as the drafter: a second model, or the target's own checkpoint in a cheaper format.

Rows of its cache, for a text of L tokens, K drafts and n of them accepted:

    begin / process     text   t1 … tL           cached: t1 … t(L−1), or fewer
    draft(K, …)         feeds the rest of the text, then d1 … d(K−1):  L + K − 1 rows (dK was never fed)
    accept(n)           keeps L + min(n, K − 1) rows
    process             text   t1 … tL d1 … dn t'   after a full acceptance dK is missing and is fed with t' next time

    draft_on_device     feeds the last two tokens of the text, whether or not the first of them is missing
"""

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor
from torch.nn.functional import pad

from acctax.draft.on_device import DeviceDraw, DeviceSource, DeviceText, joined
from acctax.draft.source import Draft, Draw
from acctax.models.decoder import Decoder, chunks
from acctax.models.ledger import pass_bytes


class DecoderSource(DeviceSource):
    def __init__(self, decoder: Decoder, vocab: int):
        """vocab: the target's; the drafter's may be padded differently, beyond the tokens both share."""
        self.decoder, self.vocab = decoder, vocab
        self.cache = decoder.new_cache()
        self.generator = torch.Generator()
        self.text: list[int] = []

    def begin(self, prompt: list[int], seed: int, features: Tensor | None) -> None:
        self.generator.manual_seed(seed)
        self.text = list(prompt)
        self.cache.roll_back(0)
        if len(prompt) > 1:
            self.decoder.forward(prompt[:-1], self.cache, last=1)

    def draft(self, K: int, draw: Draw, along: Sequence[int] | None = None) -> Draft:
        tokens, laws = [], []
        feed = self.text[self.cache.length :]
        for k in range(K):
            logits = self.decoder.forward(feed, self.cache, last=1)
            token, law = draw(self._fit(logits[0]), self.generator)
            tokens.append(token)
            laws.append(law)
            feed = [along[k] if along else token]
        return Draft(tokens, None if not laws or laws[0] is None else torch.stack(laws))

    def accept(self, n: int) -> None:
        self.cache.roll_back(min(self.cache.length, len(self.text) + n))

    def process(self, tokens: list[int], features: Tensor | None) -> None:
        self.text += tokens

    def draft_on_device(self, K: int, rows: int, text: DeviceText, draw: DeviceDraw) -> tuple[Tensor, Tensor | None]:
        start = (text.position - 1).clamp_min(0)  # of a text of one token the second row is nothing, until a draft is
        logits = self.decoder.forward(text.tail, self.cache, position=start).index_select(0, text.position - start)
        drawn = []
        for k in range(K):
            if k:
                logits = self.decoder.forward(drawn[-1][0], self.cache, position=text.position + k)
            drawn.append(draw(self._fit(logits), k))
        return joined(drawn, self.decoder.device)

    def follow(
        self, text: list[int], start: int, features: Tensor | None, K: int, draw: Draw
    ) -> Iterator[Draft]:
        """Read in chunks: a decoder's law depends on the text before it, not on how much of that was drafted."""
        self.begin(text[:start], 0, features)
        parts = (self.decoder.forward(part, self.cache) for part in chunks(text[start - 1 : -1]))
        drawn = [draw(self._fit(logits), self.generator) for part in parts for logits in part]
        for t in range(len(drawn) - K + 1):
            tokens, laws = zip(*drawn[t : t + K])
            yield Draft(list(tokens), torch.stack(laws))

    def bytes_per_draft(self, context: int) -> float:
        return sum(pass_bytes(self.decoder, rows=1, context=context).values())

    def _fit(self, logits: Tensor) -> Tensor:
        missing = self.vocab - logits.shape[-1]
        return logits[..., : self.vocab] if missing <= 0 else pad(logits, (0, missing), value=-torch.inf)
