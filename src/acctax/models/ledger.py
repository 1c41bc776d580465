"""The byte ledger: what one pass must read, counted from the stored tensors themselves."""

from torch import Tensor

from acctax.models.decoder import Decoder
from acctax.models.weights import LayerWeights


def pass_bytes(decoder: Decoder, rows: int, context: int) -> dict[str, float]:
    """Component → bytes read by one pass over `rows` new rows after `context` cached ones.

    Every weight counts once, in its stored form with its scales; of the embedding only the gathered rows; of the
    cache the rows that a window leaves in sight. A tied lm_head reads the embedding in full, or its quantized copy.
    """
    weights, config = decoder.weights, decoder.config
    ledger = {
        "embedding": rows * weights.embedding[0].nbytes,
        **dict.fromkeys(("q", "k", "v", "o", "gate", "up", "down"), 0),
        "norms": weights.final_norm.nbytes + sum(map(_norms, weights.layers)),
        **weights.lm_head.stored,
        "kv": 0,
    }
    for layer in weights.layers:
        for linear in (layer.qkv, layer.o, layer.gate_up, layer.down):
            for component, stored in linear.stored.items():
                ledger[component] += stored
    row = 2 * config.kv_heads * config.head_dim * weights.embedding.element_size()  # one key and one value
    for layer in config.layers:
        in_sight = min(context, layer.window - 1) if layer.window else context
        ledger["kv"] += (in_sight + rows) * row
    return {component: float(count) for component, count in ledger.items()}


def _norms(layer: LayerWeights) -> int:
    norms = (getattr(layer, name) for name in layer.__slots__ if name.endswith("_norm"))
    return sum(norm.nbytes for norm in norms if isinstance(norm, Tensor))
