"""The weights of a head, packed by a recipe as a decoder's are."""

from dataclasses import dataclass
from weakref import WeakValueDictionary

import torch
from torch import Tensor

from acctax import ops
from acctax.config import Recipe, Rule
from acctax.draft.heads.checkpoint import HeadCheckpoint
from acctax.draft.heads.config import MODULES
from acctax.draft.heads.files import fingerprint
from acctax.models.weights import STORED, LayerWeights, Linear, pack
from acctax.quant import recipes


@dataclass(slots=True, weakref_slot=True)
class HeadWeights:
    """Norms are in float32, absent ones None."""

    embedding: Tensor  # [vocab, hidden] in the activations' dtype, never quantized: rows are gathered
    embed_norm: Tensor | None
    hidden_norm: Tensor | None
    states_norm: Tensor | None  # [states · state size]
    state_norms: list[Tensor]  # one a state, or none
    input_proj: Linear
    layer: LayerWeights
    gate: Linear | None  # of attention's output
    norm: Tensor | None
    lm_head: Linear  # a row for each draft id


_loaded: WeakValueDictionary[tuple, HeadWeights] = WeakValueDictionary()  # both arms of a cell often share one


def load_weights(head: HeadCheckpoint, recipe: Recipe, dtype: torch.dtype, device: str) -> HeadWeights:
    """Raises ConfigError for a recipe that does not fit and for a parameter that was never filled."""
    key = (fingerprint(head.files.folder), head.target, recipe, dtype, device, ops.backend(device))
    weights = _loaded.get(key)
    if weights is None:
        weights = _loaded[key] = _Reader(head, recipe, dtype, device).weights()
    return weights


class _Reader:
    def __init__(self, head: HeadCheckpoint, recipe: Recipe, dtype: torch.dtype, device: str):
        self.head, self.block, self.dtype, self.device = head, head.config.block, dtype, device
        self.rules = recipes.assign(recipe, head.config.linears())

    def weights(self) -> HeadWeights:
        matrices, biases = self._attention(""), self._attention(".bias")
        layer = LayerWeights(
            attention_norm=self._norm("attention_norm"),
            qkv=self._linear(["q_proj", "k_proj", "v_proj"], matrices[:3], biases[:3]),
            q_norm=self._norm("q_norm", in_pairs=True),
            k_norm=self._norm("k_norm", in_pairs=True),
            o=self._plain("o_proj"),
            attention_out_norm=None,
            mlp_norm=self._norm("mlp_norm"),
            gate_up=self._plain("gate_proj", "up_proj"),
            down=self._plain("down_proj"),
            mlp_out_norm=None,
        )
        state_norms = [self._norm(f"state_norm.{i}") for i in range(len(self.head.config.states))]
        return HeadWeights(
            embedding=self.head.embedding().to(self.device, self.dtype),
            embed_norm=self._norm("embed_norm"),
            hidden_norm=self._norm("hidden_norm"),
            states_norm=self._norm("states_norm"),
            state_norms=[norm for norm in state_norms if norm is not None],
            input_proj=self._plain("input_proj"),
            layer=layer,
            gate=self._linear(["q_proj"], matrices[3:], biases[3:]) if self.head.config.gated else None,
            norm=self._norm("norm"),
            lm_head=self._linear(["lm_head"], [self.head.lm_head()], [None]),
        )

    def _attention(self, suffix: str) -> list[Tensor | None]:
        """q, k, v and, of a gated head, the gate's rows, as attention takes them."""
        q, k, v = (self.head.tensor(name + suffix) for name in ("q_proj", "k_proj", "v_proj"))
        if q is None:
            return [None] * 4
        heads, kv_heads, D = self.block.heads, self.block.kv_heads, self.block.head_dim
        gate = []
        if self.head.config.gated:  # of each head first its q, then its gate
            q, gate = (part.flatten(0, 1) for part in q.unflatten(0, (heads, 2, D)).unbind(1))
            gate = [gate]
        q, k = (self._in_pairs(t.unflatten(0, (n, D))).flatten(0, 1) for t, n in ((q, heads), (k, kv_heads)))
        return [q, k, v, *gate]

    def _in_pairs(self, heads: Tensor) -> Tensor:
        """[heads, D, …] with the dims that are rotated, of a partial rotary, at the starts of both halves of D.

        The file pairs i and i + r/2 of the first r dims; attention pairs i and i + D/2, and scores do not mind order.
        """
        D, r = heads.shape[1], self.head.config.rotary_dims or heads.shape[1]
        rotated, rest = torch.arange(r).view(2, -1), torch.arange(r, D).view(2, -1)
        return heads[:, torch.cat([rotated, rest], dim=1).flatten()]

    def _norm(self, parameter: str, in_pairs: bool = False) -> Tensor | None:
        norm = self.head.tensor(parameter)
        if norm is None:
            return None
        norm = self._in_pairs(norm[None])[0] if in_pairs else norm
        return norm.to(self.device, torch.float32) + self.block.norm_offset

    def _plain(self, *names: str) -> Linear:
        tensors = [[self.head.tensor(name + suffix) for name in names] for suffix in ("", ".bias")]
        return self._linear(list(names), *tensors)

    def _linear(self, names: list[str], matrices: list[Tensor], biases: list[Tensor | None]) -> Linear:
        modules = [MODULES[name] for name in names]
        rules = [self.rules[module] or Rule(module, STORED[self.dtype]) for module in modules]
        biases = [None if bias is None else bias.to(self.device, torch.float32) for bias in biases]
        return pack(modules, [matrix.to(self.device) for matrix in matrices], biases, rules)
