"""A draft head: the pass over pairs of a token and the state before it."""

from collections.abc import Sequence

import torch
from torch import Tensor

from acctax import ops
from acctax.config import Recipe
from acctax.draft.heads.checkpoint import HeadCheckpoint
from acctax.draft.heads.config import HeadConfig
from acctax.draft.heads.weights import HeadWeights, load_weights
from acctax.models.cache import KVCache
from acctax.models.rotary import tables


class Head:
    def __init__(self, config: HeadConfig, weights: HeadWeights, ids: Tensor | None, capacity: int):
        """ids [draft_vocab]: the target id of each draft id, None: the same; capacity: the longest text in tokens."""
        self.config, self.weights, self.capacity = config, weights, capacity
        self.dtype, self.device = weights.embedding.dtype, weights.embedding.device
        self.ids = None if ids is None else ids.to(self.device)
        self.rotary = tables(config.block.layers[0].rotary, capacity, self.device)

    @classmethod
    def load(
        cls, head: HeadCheckpoint, recipe: Recipe, capacity: int, dtype: torch.dtype = torch.bfloat16,
        device: str = "cpu",
    ) -> "Head":  # fmt: skip
        return cls(head.config, load_weights(head, recipe, dtype, device), head.ids, capacity)

    def new_cache(self) -> KVCache:
        return KVCache(self.config.block, self.capacity, self.dtype, self.device)

    @torch.inference_mode()
    def state_of(self, features: Tensor) -> Tensor:
        """features [M, states · state size] of the target → state [M, hidden], as the pass takes it."""
        weights, eps = self.weights, self.config.block.eps
        if not self.config.wide:
            return features
        if weights.state_norms:
            parts = features.chunk(len(weights.state_norms), dim=1)
            normed = [ops.rms_norm(part.contiguous(), norm, eps) for part, norm in zip(parts, weights.state_norms)]
            features = torch.cat(normed, dim=1)
        return weights.input_proj(features, norm=weights.states_norm, eps=eps)

    @torch.inference_mode()
    def forward(
        self, tokens: Sequence[int] | Tensor, state: Tensor, cache: KVCache, position: Tensor | None = None,
        row: Tensor | None = None,
    ) -> tuple[Tensor, Tensor]:  # fmt: skip
        """tokens [M], state [M, hidden] before each → of one row: logits [1, draft_vocab] in f32, state [1, hidden].

        row: int64 [1], None: the last. The cache grows by M rows; position as in `Decoder.forward`.
        """
        block, weights = self.config.block, self.weights
        attend, at = (ops.attend, cache.length) if position is None else (ops.attend_at, position)
        layer, eps = weights.layer, block.eps
        x, qkv, gate = self._enter(tokens, state, first=at == 0)
        (keys, values), (cos, sin) = cache.layers[0], self.rotary
        a = attend(
            qkv, layer.q_norm, layer.k_norm, eps, cos, sin, keys, values, at, block.attention_scale,
            block.layers[0].window,
        )  # fmt: skip
        if gate is not None:
            a = a * gate.sigmoid()
        x = layer.o(a, residual=x)
        h = layer.gate_up(x, norm=layer.mlp_norm, eps=eps)  # [M, 2 · intermediate]
        x = layer.down(h, residual=x, activation=block.activation)
        if position is None:
            cache.length = at + len(tokens)
        x = x[-1:] if row is None else x.index_select(0, row)
        normed = _norm(x, weights.norm, eps)
        return weights.lm_head(normed, float_out=True), normed if self.config.recycles_normed else x

    def _enter(
        self, tokens: Sequence[int] | Tensor, state: Tensor, first: bool | Tensor
    ) -> tuple[Tensor, Tensor, Tensor | None]:
        """The residual [M, hidden], q, k and v side by side, and the gate of attention's output where there is one."""
        config, weights, eps = self.config, self.weights, self.config.block.eps
        embedded = weights.embedding[torch.as_tensor(tokens, device=self.device)]  # [M, hidden]
        if config.blind_start:
            embedded[:1].masked_fill_(torch.as_tensor(first, device=self.device), 0)
        embedded, normed = _norm(embedded, weights.embed_norm, eps), _norm(state, weights.hidden_norm, eps)
        if config.wide:
            x = normed if config.norm_before_residual else state
            return x, weights.layer.qkv(torch.cat([embedded, normed], dim=1)), None
        x = weights.input_proj(torch.cat([normed, embedded] if config.hidden_first else [embedded, normed], dim=1))
        norm = {"norm": weights.layer.attention_norm, "eps": eps}
        return x, weights.layer.qkv(x, **norm), None if weights.gate is None else weights.gate(x, **norm)

    def bytes_per_pass(self, context: int) -> float:
        """Bytes that a row after `context` others reads: weights as stored, an embedding's row, keys and values.

        EAGLE-3's joint of states, which only the first draft of a cycle reads, is among them.
        """
        weights, block = self.weights, self.config.block
        linears = (weights.input_proj, weights.layer.qkv, weights.layer.o, weights.layer.gate_up, weights.layer.down,
                   weights.gate, weights.lm_head)  # fmt: skip
        layer = weights.layer
        norms = (weights.embed_norm, weights.hidden_norm, weights.states_norm, *weights.state_norms, weights.norm,
                 layer.attention_norm, layer.q_norm, layer.k_norm, layer.mlp_norm)  # fmt: skip
        stored = sum(sum(linear.stored.values()) for linear in linears if linear is not None)
        row = 2 * block.kv_heads * block.head_dim * weights.embedding.element_size()  # one key and one value
        window = block.layers[0].window
        rows = (min(context, window - 1) if window else context) + 1
        return float(stored + sum(n.nbytes for n in norms if n is not None) + weights.embedding[0].nbytes + rows * row)


def _norm(x: Tensor, norm: Tensor | None, eps: float) -> Tensor:
    return x if norm is None else ops.rms_norm(x, norm, eps)
