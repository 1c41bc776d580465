"""The weights of a decoder: a checkpoint's tensors, each linear packed as a recipe says."""

from dataclasses import dataclass

import torch
from torch import Tensor

from acctax.config import Recipe, Rule
from acctax.errors import ConfigError
from acctax.models.checkpoint import Checkpoint
from acctax.quant import recipes, registry
from acctax.quant.packed import PackedWeight

STORED = {torch.bfloat16: "bf16", torch.float32: "fp32"}  # the format of what no rule names


@dataclass(slots=True)
class Linear:
    weight: PackedWeight
    bias: Tensor | None  # [N] f32

    def __call__(self, x: Tensor, residual: Tensor | None = None) -> Tensor:
        return self.weight.linear(x, self.bias, residual)


@dataclass(slots=True)
class LayerWeights:
    """Norms are [hidden] (q_norm, k_norm: [head_dim]) in float32, absent ones None."""

    attention_norm: Tensor
    q: Linear
    k: Linear
    v: Linear
    q_norm: Tensor | None
    k_norm: Tensor | None
    o: Linear
    attention_out_norm: Tensor | None
    mlp_norm: Tensor
    gate: Linear
    up: Linear
    down: Linear
    mlp_out_norm: Tensor | None


@dataclass(slots=True)
class DecoderWeights:
    embedding: Tensor  # [vocab, hidden] in the activations' dtype, never quantized: rows are gathered
    layers: list[LayerWeights]
    final_norm: Tensor
    lm_head: Linear


def load_weights(checkpoint: Checkpoint, recipe: Recipe, dtype: torch.dtype = torch.bfloat16) -> DecoderWeights:
    """Pack a checkpoint by a recipe. A matrix packed once is shared by every decoder that wants it so.

    Raises ConfigError for a recipe that does not fit, a tensor that is missing, and a tensor that nothing used.
    """
    config = checkpoint.config
    reader = _Reader(checkpoint, recipes.assign(recipe, config.linears()), dtype)
    sandwich = config.sandwich_norm
    layers = []
    for i in range(len(config.layers)):
        base = f"model.layers.{i}."
        layers.append(
            LayerWeights(
                attention_norm=reader.norm(base + "input_layernorm"),
                q=reader.linear(base + "self_attn.q_proj", config.qkv_bias),
                k=reader.linear(base + "self_attn.k_proj", config.qkv_bias),
                v=reader.linear(base + "self_attn.v_proj", config.qkv_bias),
                q_norm=reader.norm(base + "self_attn.q_norm") if config.qk_norm else None,
                k_norm=reader.norm(base + "self_attn.k_norm") if config.qk_norm else None,
                o=reader.linear(base + "self_attn.o_proj", config.o_bias),
                attention_out_norm=reader.norm(base + "post_attention_layernorm") if sandwich else None,
                mlp_norm=reader.norm(base + ("pre_feedforward" if sandwich else "post_attention") + "_layernorm"),
                gate=reader.linear(base + "mlp.gate_proj", config.mlp_bias),
                up=reader.linear(base + "mlp.up_proj", config.mlp_bias),
                down=reader.linear(base + "mlp.down_proj", config.mlp_bias),
                mlp_out_norm=reader.norm(base + "post_feedforward_layernorm") if sandwich else None,
            )
        )
    weights = DecoderWeights(
        embedding=reader.tensor("model.embed_tokens.weight", (config.vocab, config.hidden)).to(dtype),
        layers=layers,
        final_norm=reader.norm("model.norm"),
        lm_head=reader.linear("lm_head", bias=False),
    )
    reader.finish()
    return weights


class _Reader:
    """Hands out a checkpoint's tensors and remembers which were asked for."""

    def __init__(self, checkpoint: Checkpoint, rules: dict[str, Rule | None], dtype: torch.dtype):
        self.checkpoint, self.rules, self.dtype = checkpoint, rules, dtype
        self.shapes = checkpoint.config.linears()
        self.used: set[str] = set()

    def tensor(self, name: str, shape: tuple[int, ...] | None = None) -> Tensor:
        tensors = self.checkpoint.tensors
        if name not in tensors:
            raise ConfigError(f"{self.checkpoint.name}: tensor", name, "is missing from the checkpoint")
        self.used.add(name)
        if shape is not None and tuple(tensors[name].shape) != shape:
            raise ConfigError(f"{self.checkpoint.name}: {name}", tuple(tensors[name].shape), f"must have shape {shape}")
        return tensors[name]

    def norm(self, name: str) -> Tensor:
        return self.tensor(f"{name}.weight").float() + self.checkpoint.config.norm_offset

    def linear(self, module: str, bias: bool) -> Linear:
        rule = self.rules[module] or Rule(module, STORED[self.dtype])
        return Linear(self._packed(module, rule), self.tensor(f"{module}.bias").float() if bias else None)

    def _packed(self, module: str, rule: Rule) -> PackedWeight:
        tied = module == "lm_head" and self.checkpoint.config.tied
        weight = self.tensor("model.embed_tokens.weight" if tied else f"{module}.weight", self.shapes[module])
        key = (module, rule.format, rule.group)
        packed = self.checkpoint.packed.get(key)
        if packed is None:
            packed = self.checkpoint.packed[key] = registry.get(rule.format).pack(weight, rule.group, module)
        return packed

    def finish(self) -> None:
        ignored = {"lm_head.weight"} if self.checkpoint.config.tied else set()  # a copy that some files carry
        unused = sorted(self.checkpoint.tensors.keys() - self.used - ignored)
        if unused:
            raise ConfigError(f"{self.checkpoint.name}: tensor", unused[0], "is in the checkpoint and nothing uses it")
