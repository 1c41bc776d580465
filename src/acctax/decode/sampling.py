"""From logits to a law: temperature, then top-k, then top-p, as most engines order them."""

from torch import Tensor

from acctax import ops
from acctax.config import Decoding


def law(logits: Tensor, decoding: Decoding) -> Tensor:
    """Probabilities [..., vocab] in float32 of logits [..., vocab], for a temperature above 0.

    The same law serves p and, for a sampled draft, q.
    """
    return ops.law(logits, decoding.temperature, decoding.top_k, decoding.top_p)
