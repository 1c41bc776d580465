"""One decoder for the Llama family: each member is a set of flags, read from a transformers configuration."""

from dataclasses import dataclass

import torch
from transformers import PretrainedConfig
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

from acctax.errors import ConfigError

FAMILIES = ("llama", "mistral", "qwen2", "qwen3", "gemma3_text")
ACTIVATIONS = {"silu": "silu", "gelu_pytorch_tanh": "gelu_tanh"}
FIXED_ROTARIES = ("default", "linear", "llama3", "yarn")  # the others' angles depend on the length of the text


@dataclass(frozen=True)
class Rotary:
    """Angles of the rotary embedding: position × inv_freq, cos and sin multiplied by scale."""

    inv_freq: tuple[float, ...]  # [head_dim / 2]
    scale: float


@dataclass(frozen=True)
class LayerConfig:
    window: int  # positions a row sees, itself included; 0 = all
    rotary: Rotary


@dataclass(frozen=True)
class DecoderConfig:
    family: str
    hidden: int
    heads: int
    kv_heads: int
    head_dim: int
    intermediate: int
    vocab: int
    context: int
    eps: float
    activation: str  # silu | gelu_tanh
    tied: bool  # lm_head is the embedding
    qkv_bias: bool
    o_bias: bool
    mlp_bias: bool
    qk_norm: bool  # RMS norm of each head's q and k before the rotary
    sandwich_norm: bool  # norms after attention and MLP too, before the residual is added
    norm_offset: float  # added to every norm weight (Gemma stores weight − 1)
    embed_scale: float
    attention_scale: float
    layers: tuple[LayerConfig, ...]

    def linears(self) -> dict[str, tuple[int, int]]:
        """Module name → [out features, in features] of everything a recipe can quantize."""
        q, kv = self.heads * self.head_dim, self.kv_heads * self.head_dim
        shapes = {
            "self_attn.q_proj": (q, self.hidden),
            "self_attn.k_proj": (kv, self.hidden),
            "self_attn.v_proj": (kv, self.hidden),
            "self_attn.o_proj": (self.hidden, q),
            "mlp.gate_proj": (self.intermediate, self.hidden),
            "mlp.up_proj": (self.intermediate, self.hidden),
            "mlp.down_proj": (self.hidden, self.intermediate),
        }
        body = {f"model.layers.{i}.{name}": shape for i in range(len(self.layers)) for name, shape in shapes.items()}
        return body | {"lm_head": (self.vocab, self.hidden)}


def read_config(hf: PretrainedConfig, field: str) -> DecoderConfig:
    """Flags of a transformers configuration. Raises ConfigError (naming `field`) for what the decoder lacks."""
    family = hf.model_type
    if family not in FAMILIES:
        raise ConfigError(f"{field}.model_type", family, f"must be one of {', '.join(FAMILIES)}")
    activation = getattr(hf, "hidden_act", None) or hf.hidden_activation
    if activation not in ACTIVATIONS:
        raise ConfigError(f"{field}.hidden_act", activation, f"must be one of {', '.join(ACTIVATIONS)}")
    for cap in ("attn_logit_softcapping", "final_logit_softcapping"):
        if getattr(hf, cap, None):
            raise ConfigError(f"{field}.{cap}", getattr(hf, cap), "logit capping is not supported; must be null")
    gemma = family == "gemma3_text"
    head_dim = getattr(hf, "head_dim", None) or hf.hidden_size // hf.num_attention_heads
    attention_bias = bool(getattr(hf, "attention_bias", False))
    return DecoderConfig(
        family=family,
        hidden=hf.hidden_size,
        heads=hf.num_attention_heads,
        kv_heads=hf.num_key_value_heads,
        head_dim=head_dim,
        intermediate=hf.intermediate_size,
        vocab=hf.vocab_size,
        context=hf.max_position_embeddings,
        eps=hf.rms_norm_eps,
        activation=ACTIVATIONS[activation],
        tied=bool(hf.tie_word_embeddings),
        qkv_bias=attention_bias or family == "qwen2",
        o_bias=attention_bias and family != "qwen2",
        mlp_bias=bool(getattr(hf, "mlp_bias", False)),
        qk_norm=gemma or family == "qwen3",
        sandwich_norm=gemma,
        norm_offset=1.0 if gemma else 0.0,
        embed_scale=hf.hidden_size**0.5 if gemma else 1.0,
        attention_scale=(hf.query_pre_attn_scalar if gemma else head_dim) ** -0.5,
        layers=tuple(_layer(hf, i, field) for i in range(hf.num_hidden_layers)),
    )


def _layer(hf: PretrainedConfig, index: int, field: str) -> LayerConfig:
    kinds = getattr(hf, "layer_types", None)
    if kinds is None:  # Llama has no windows; Mistral has one for all layers, or none
        sliding = hf.model_type == "mistral"
    else:
        sliding = kinds[index] == "sliding_attention"
    window = (hf.sliding_window or 0) if sliding else 0
    return LayerConfig(window, _rotary(hf, kinds[index] if hf.model_type == "gemma3_text" else None, field))


def _rotary(hf: PretrainedConfig, kind: str | None, field: str) -> Rotary:
    parameters = hf.rope_parameters[kind] if kind else hf.rope_parameters
    rope_type = parameters["rope_type"]
    if rope_type not in FIXED_ROTARIES:
        raise ConfigError(f"{field}.rope_type", rope_type, f"must be one of {', '.join(FIXED_ROTARIES)}")
    if parameters.get("partial_rotary_factor", 1.0) != 1.0:
        raise ConfigError(f"{field}.partial_rotary_factor", parameters["partial_rotary_factor"], "must be 1.0")
    if rope_type == "default":
        dim = getattr(hf, "head_dim", None) or hf.hidden_size // hf.num_attention_heads
        powers = torch.arange(0, dim, 2, dtype=torch.float32) / dim  # in float32, as the models were trained
        return Rotary(tuple((1.0 / parameters["rope_theta"] ** powers).tolist()), 1.0)
    arguments = {"layer_type": kind} if kind else {}
    inv_freq, scale = ROPE_INIT_FUNCTIONS[rope_type](hf, "cpu", **arguments)
    return Rotary(tuple(inv_freq.tolist()), scale)
