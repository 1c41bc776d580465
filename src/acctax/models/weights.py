"""The weights of a decoder: a checkpoint's tensors, each linear packed as a recipe says."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from acctax import ops
from acctax.config import Recipe, Rule
from acctax.errors import ConfigError
from acctax.models.checkpoint import Checkpoint
from acctax.quant import recipes, registry
from acctax.quant.packed import PackedWeight
from acctax.quant.runnable import runnable
from acctax.quant.stack import stack
from acctax.quant.tiled import TiledWeight

STORED = {torch.bfloat16: "bf16", torch.float32: "fp32"}  # the format of what no rule names


@dataclass(slots=True, weakref_slot=True)
class Linear:
    """One module, or several that read the same x: stacked into one weight where their formats allow it."""

    weights: list[TiledWeight | PackedWeight]
    biases: list[Tensor | None]  # [N] f32
    stored: dict[str, int]  # component → bytes as each module stores them, its bias included

    def __call__(self, x: Tensor, **how: object) -> Tensor:
        """x [M, K] → [M, ΣN]; how: see `PackedWeight.linear`."""
        if len(self.weights) == 1:
            return self.weights[0].linear(x, self.biases[0], **how)
        return torch.cat([weight.linear(x, bias, **how) for weight, bias in zip(self.weights, self.biases)], dim=1)


@dataclass(slots=True)
class LayerWeights:
    """Norms are [hidden] (q_norm, k_norm: [head_dim]) in float32, absent ones None."""

    attention_norm: Tensor
    qkv: Linear
    q_norm: Tensor | None
    k_norm: Tensor | None
    o: Linear
    attention_out_norm: Tensor | None
    mlp_norm: Tensor
    gate_up: Linear
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
                qkv=reader.linear(base + "self_attn.", ("q_proj", "k_proj", "v_proj"), config.qkv_bias),
                q_norm=reader.norm(base + "self_attn.q_norm") if config.qk_norm else None,
                k_norm=reader.norm(base + "self_attn.k_norm") if config.qk_norm else None,
                o=reader.linear(base + "self_attn.", ("o_proj",), config.o_bias),
                attention_out_norm=reader.norm(base + "post_attention_layernorm") if sandwich else None,
                mlp_norm=reader.norm(base + ("pre_feedforward" if sandwich else "post_attention") + "_layernorm"),
                gate_up=reader.linear(base + "mlp.", ("gate_proj", "up_proj"), config.mlp_bias),
                down=reader.linear(base + "mlp.", ("down_proj",), config.mlp_bias),
                mlp_out_norm=reader.norm(base + "post_feedforward_layernorm") if sandwich else None,
            )
        )
    weights = DecoderWeights(
        embedding=reader.tensor("model.embed_tokens.weight", (config.vocab, config.hidden)).to(dtype),
        layers=layers,
        final_norm=reader.norm("model.norm"),
        lm_head=reader.linear("", ("lm_head",), bias=False),
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

    def linear(self, base: str, modules: tuple[str, ...], bias: bool) -> Linear:
        names = [base + module for module in modules]
        matrices = [self._matrix(name) for name in names]
        biases = [self.tensor(f"{name}.bias").float() if bias else None for name in names]
        rules = [self.rules[name] or Rule(name, STORED[self.dtype]) for name in names]
        key = (ops.backend() == "reference", *((name, rule.format, rule.group) for name, rule in zip(names, rules)))
        linear = self.checkpoint.packed.get(key)
        if linear is None:
            linear = self.checkpoint.packed[key] = pack(names, matrices, biases, rules)
        return linear

    def _matrix(self, name: str) -> Tensor:
        tied = name == "lm_head" and self.checkpoint.config.tied
        return self.tensor("model.embed_tokens.weight" if tied else f"{name}.weight", self.shapes[name])

    def finish(self) -> None:
        ignored = {"lm_head.weight"} if self.checkpoint.config.tied else set()  # a copy that some files carry
        unused = sorted(self.checkpoint.tensors.keys() - self.used - ignored)
        if unused:
            raise ConfigError(f"{self.checkpoint.name}: tensor", unused[0], "is in the checkpoint and nothing uses it")


def pack(names: Sequence[str], matrices: list[Tensor], biases: list[Tensor | None], rules: list[Rule]) -> Linear:
    """Modules that read the same x, each stored as its rule says."""
    parts = [registry.get(rule.format).pack(m, rule.group, name) for name, m, rule in zip(names, matrices, rules)]
    return _joined(tuple(name.rpartition(".")[2] for name in names), parts, biases)


def _joined(modules: tuple[str, ...], parts: list[PackedWeight], biases: list[Tensor | None]) -> Linear:
    stored = {
        module.removesuffix("_proj"): part.nbytes + (0 if bias is None else bias.nbytes)
        for module, part, bias in zip(modules, parts, biases)
    }
    whole = stack(parts) if len(parts) > 1 else None
    if whole is not None:
        parts, biases = [whole], [None if biases[0] is None else torch.cat(biases)]
    return Linear([runnable(part) for part in parts], biases, stored)
