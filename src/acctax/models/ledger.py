"""The byte ledger: what one pass must read, counted from the stored tensors themselves."""

from torch import Tensor

from acctax.models.decoder import Decoder
from acctax.models.weights import Linear


def pass_bytes(decoder: Decoder, rows: int, context: int) -> dict[str, float]:
    """Component → bytes read by one pass over `rows` new rows after `context` cached ones.

    Every weight counts once, in its stored form with its scales; of the embedding only the gathered rows; of the
    cache the rows that a window leaves in sight. A tied lm_head reads the embedding in full, or its quantized copy.
    """
    weights, config = decoder.weights, decoder.config
    ledger = {
        "embedding": rows * weights.embedding[0].nbytes,
        "q": sum(_stored(layer.q) for layer in weights.layers),
        "k": sum(_stored(layer.k) for layer in weights.layers),
        "v": sum(_stored(layer.v) for layer in weights.layers),
        "o": sum(_stored(layer.o) for layer in weights.layers),
        "gate": sum(_stored(layer.gate) for layer in weights.layers),
        "up": sum(_stored(layer.up) for layer in weights.layers),
        "down": sum(_stored(layer.down) for layer in weights.layers),
        "norms": weights.final_norm.nbytes + sum(map(_norms, weights.layers)),
        "lm_head": _stored(weights.lm_head),
        "kv": 0,
    }
    row = 2 * config.kv_heads * config.head_dim * weights.embedding.element_size()  # one key and one value
    for layer in config.layers:
        in_sight = min(context, layer.window - 1) if layer.window else context
        ledger["kv"] += (in_sight + rows) * row
    return {component: float(count) for component, count in ledger.items()}


def _stored(linear: Linear) -> int:
    return linear.weight.nbytes + (linear.bias.nbytes if linear.bias is not None else 0)


def _norms(layer) -> int:
    norms = (getattr(layer, name) for name in layer.__slots__ if name.endswith("_norm"))
    return sum(norm.nbytes for norm in norms if isinstance(norm, Tensor))
