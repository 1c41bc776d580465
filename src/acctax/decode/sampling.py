"""From logits to a law: temperature, then top-k, then top-p, as most engines order them."""

import torch
from torch import Tensor

from acctax.config import Decoding


def law(logits: Tensor, decoding: Decoding) -> Tensor:
    """Probabilities [..., vocab] in float32 of logits [..., vocab], for a temperature above 0.

    top-k keeps ties of the k-th; top-p drops what lies below the smallest set of mass ≥ top_p and always keeps the
    largest. The same law serves p and, for a sampled draft, q.
    """
    logits = logits.float() / decoding.temperature
    if 0 < decoding.top_k < logits.shape[-1]:
        kth = logits.topk(decoding.top_k, dim=-1).values[..., -1:]
        logits = logits.masked_fill(logits < kth, -torch.inf)
    if decoding.top_p < 1.0:
        ascending, order = logits.sort(dim=-1)
        dropped = ascending.softmax(dim=-1).cumsum(dim=-1) <= 1.0 - decoding.top_p
        dropped[..., -1] = False
        logits = logits.masked_fill(torch.zeros_like(dropped).scatter(-1, order, dropped), -torch.inf)
    return logits.softmax(dim=-1)
