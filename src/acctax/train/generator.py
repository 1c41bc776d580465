"""The target at a large batch: one token a step for many texts at once, hidden states included.

Same model as `models.decoder`, for throughput instead of latency: one matrix product serves all texts, and each text
attends over its own cache.
"""

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

from acctax import ops
from acctax.models.cache import KVCache
from acctax.models.checkpoint import Checkpoint
from acctax.models.rotary import tables


class Generator:
    def __init__(self, checkpoint: Checkpoint, slots: int, capacity: int, layers: Sequence[int],
                 dtype: torch.dtype = torch.bfloat16):
        """slots: texts at once; capacity: the longest text; layers: i means the hidden state that enters layer i."""
        config = self.config = checkpoint.config
        self.captured, self.dtype = tuple(layers), dtype
        tensors = checkpoint.tensors
        self.embedding = tensors["model.embed_tokens.weight"].to(dtype)
        self.lm_head = self.embedding if config.tied else tensors["lm_head.weight"].to(dtype)
        self.final_norm = self._norm(tensors, "model.norm")
        self.layers = [self._layer(tensors, f"model.layers.{i}.") for i in range(len(config.layers))]
        rotaries = {layer.rotary: tables(layer.rotary, capacity) for layer in config.layers}
        self.rotary = [rotaries[layer.rotary] for layer in config.layers]
        self.caches = [KVCache(config, capacity, dtype).layers for _ in range(slots)]

    def _norm(self, tensors: dict[str, Tensor], name: str) -> Tensor | None:
        name = f"{name}.weight"
        return tensors[name].float() + self.config.norm_offset if name in tensors else None

    def _layer(self, tensors: dict[str, Tensor], base: str) -> dict[str, Tensor | None]:
        sandwich = self.config.sandwich_norm
        norms = {
            "attention_norm": "input_layernorm",
            "q_norm": "self_attn.q_norm",
            "k_norm": "self_attn.k_norm",
            "attention_out_norm": "post_attention_layernorm" if sandwich else "",
            "mlp_norm": "pre_feedforward_layernorm" if sandwich else "post_attention_layernorm",
            "mlp_out_norm": "post_feedforward_layernorm" if sandwich else "",
        }
        linears = {
            "qkv": ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"),
            "o": ("self_attn.o_proj",),
            "gate": ("mlp.gate_proj",),
            "up": ("mlp.up_proj",),
            "down": ("mlp.down_proj",),
        }
        layer = {part: self._norm(tensors, base + name) for part, name in norms.items()}
        for part, names in linears.items():
            layer[part] = torch.cat([tensors[f"{base}{name}.weight"] for name in names]).to(self.dtype)
            biases = [tensors.get(f"{base}{name}.bias") for name in names]
            layer[f"{part}_bias"] = None if biases[0] is None else torch.cat(biases).to(self.dtype)
        return layer

    def copy(self, source: int, slot: int, length: int) -> None:
        """The first `length` rows of a text's cache to another slot: texts that begin alike share their beginning."""
        for kept, new in zip(self.caches[source], self.caches[slot]):
            for part, other in zip(kept, new):
                other[:, :length] = part[:, :length]

    @torch.inference_mode()
    def step(self, slots: Sequence[int], tokens: Sequence[int], positions: Sequence[int]) -> tuple[Tensor, Tensor]:
        """The next token of each of n texts → logits [n, vocab], features [n, (layers + 1) · hidden].

        Features are the captured hidden states, then the last one after the final norm.
        """
        config, eps = self.config, self.config.eps
        captured = []
        x = self.embedding[torch.tensor(tokens)] * config.embed_scale  # [n, hidden]
        for i, (layer, (cos, sin)) in enumerate(zip(self.layers, self.rotary)):
            if i in self.captured:
                captured.append(x)
            qkv = F.linear(rms_norm(x, layer["attention_norm"], eps), layer["qkv"], layer["qkv_bias"])
            window, scale = config.layers[i].window, config.attention_scale
            attended = [
                ops.attend(row, layer["q_norm"], layer["k_norm"], eps, cos, sin, *self.caches[slot][i], position,
                           scale, window)
                for row, slot, position in zip(qkv.split(1), slots, positions)
            ]  # n × [1, heads · head_dim]
            a = F.linear(torch.cat(attended), layer["o"], layer["o_bias"])
            x = x + rms_norm(a, layer["attention_out_norm"], eps)
            h = rms_norm(x, layer["mlp_norm"], eps)
            gate, up = F.linear(h, layer["gate"], layer["gate_bias"]), F.linear(h, layer["up"], layer["up_bias"])
            gate = F.silu(gate) if config.activation == "silu" else F.gelu(gate, approximate="tanh")
            h = F.linear(gate * up, layer["down"], layer["down_bias"])
            x = x + rms_norm(h, layer["mlp_out_norm"], eps)
        x = rms_norm(x, self.final_norm, eps)
        return F.linear(x, self.lm_head), torch.cat([*captured, x], dim=1)


def rms_norm(x: Tensor, weight: Tensor | None, eps: float) -> Tensor:
    return x if weight is None else ops.rms_norm(x, weight, eps)
