"""The forward pass: M new rows through every layer, over a cache of what came before."""

from collections.abc import Sequence

import torch
from torch import Tensor

from acctax import ops
from acctax.config import Recipe
from acctax.models.cache import KVCache
from acctax.models.checkpoint import Checkpoint
from acctax.models.config import DecoderConfig
from acctax.models.rotary import tables
from acctax.models.weights import DecoderWeights, load_weights

CHUNK = 64  # rows of a text that is there already, read at once: their logits have to fit beside each other
NORMED = -1  # a hidden state's index: after the final norm, as transformers' hidden_states[-1]


class Decoder:
    """A model of the Llama family at batch 1. Each row's logits are the same, bit for bit, whatever M is."""

    def __init__(self, config: DecoderConfig, weights: DecoderWeights, capacity: int):
        """capacity: the longest text, in tokens, that a cache of this decoder will hold."""
        self.config, self.weights, self.capacity = config, weights, capacity
        self.dtype, self.device = weights.embedding.dtype, weights.embedding.device
        self.embed_scale = None
        if config.embed_scale != 1.0:
            self.embed_scale = torch.tensor(config.embed_scale, dtype=self.dtype, device=self.device)
        rotaries = {layer.rotary: tables(layer.rotary, capacity, self.device) for layer in config.layers}
        self.rotary = [rotaries[layer.rotary] for layer in config.layers]
        self.windows = [layer.window for layer in config.layers]

    @classmethod
    def load(
        cls, checkpoint: Checkpoint, recipe: Recipe, capacity: int, dtype: torch.dtype = torch.bfloat16,
        device: str = "cpu",
    ) -> "Decoder":  # fmt: skip
        return cls(checkpoint.config, load_weights(checkpoint, recipe, dtype, device), capacity)

    def new_cache(self) -> KVCache:
        return KVCache(self.config, self.capacity, self.dtype, self.device)

    @torch.inference_mode()
    def forward(
        self, tokens: Sequence[int] | Tensor, cache: KVCache, last: int | None = None,
        states: dict[int, Tensor] | None = None, position: Tensor | None = None,
    ) -> Tensor:  # fmt: skip
        """tokens [M] → logits [M, vocab] in float32, of the `last` rows alone if given; the cache grows by M rows.

        states: hidden states to keep; under each of its keys it receives one [M, hidden]. i < L: what enters layer i;
        L: what leaves the last of the L layers; NORMED: that, after the final norm.
        position: int32 [1] on the device, where only that knows at which row of the cache the new ones begin. Whoever
        gives it sees to it that they fit, and keeps the cache's length.
        Raises ValueError where the cache has no room for the rows.
        """
        config, weights = self.config, self.weights
        attend, at = (ops.attend, cache.length) if position is None else (ops.attend_at, position)
        if position is None and at + len(tokens) > cache.capacity:
            raise ValueError(f"{at} + {len(tokens)} rows do not fit a cache of {cache.capacity}")
        eps, scale, activation = config.eps, config.attention_scale, config.activation
        x = weights.embedding[torch.as_tensor(tokens, device=self.device)]  # [M, hidden]
        if self.embed_scale is not None:
            x = x * self.embed_scale
        states = {} if states is None else states
        parts = zip(weights.layers, cache.layers, self.rotary, self.windows)
        for i, (layer, (keys, values), (cos, sin), window) in enumerate(parts):
            if i in states:
                states[i] = x
            qkv = layer.qkv(x, norm=layer.attention_norm, eps=eps)  # [M, (heads + 2 · kv_heads) · head_dim]
            a = attend(
                qkv, layer.q_norm, layer.k_norm, eps, cos, sin, keys, values, at, scale, window
            )  # [M, heads · head_dim]
            if layer.attention_out_norm is None:
                x = layer.o(a, residual=x)
            else:
                x = ops.rms_norm(layer.o(a), layer.attention_out_norm, eps, x)
            h = layer.gate_up(x, norm=layer.mlp_norm, eps=eps)  # [M, 2 · intermediate]
            if layer.mlp_out_norm is None:
                x = layer.down(h, residual=x, activation=activation)
            else:
                x = ops.rms_norm(layer.down(h, activation=activation), layer.mlp_out_norm, eps, x)
        if position is None:
            cache.length = at + len(tokens)
        if len(weights.layers) in states:
            states[len(weights.layers)] = x
        if NORMED in states:
            states[NORMED] = ops.rms_norm(x, weights.final_norm, eps)
        if last is not None:
            x = x[-last:]
        return weights.lm_head(x, norm=weights.final_norm, eps=eps, float_out=True)


def chunks(tokens: Sequence[int]) -> list[Sequence[int]]:
    """A text in parts that a pass reads at once."""
    return [tokens[i : i + CHUNK] for i in range(0, len(tokens), CHUNK)]
