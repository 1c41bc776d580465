"""The decoder block of a head, from the transformers configuration that its file holds."""

from collections.abc import Mapping
from dataclasses import replace

from transformers import PretrainedConfig, Qwen3Config
from transformers.models.auto.configuration_auto import CONFIG_MAPPING

from acctax.draft.heads.files import HeadFiles
from acctax.errors import ConfigError
from acctax.models.config import DecoderConfig, LayerConfig, Rotary, read_config

# What shapes do not betray. The rest they do, or it is transformers' default for the model_type.
NEEDED = ("model_type", "hidden_size", "num_attention_heads", "vocab_size", "max_position_embeddings", "rms_norm_eps")
SAME_AS = {"mimo": "qwen2"}
GATED = ("qwen3_next", "qwen3_5_text")  # attention's output is gated, rotary is partial, norms are stored less 1
NOT_HERE = {
    ".mlp.experts.": "a mixture of experts cannot run here", ".mlp.gate.": "a mixture of experts cannot run here",
    ".shared_expert": "a mixture of experts cannot run here", ".q_a_proj": "latent attention cannot run here",
    ".kv_a_proj": "latent attention cannot run here",
}  # fmt: skip


def read_block(files: HeadFiles, values: Mapping, prefix: str, target: DecoderConfig) -> tuple[DecoderConfig, dict]:
    """The block as a decoder of one layer, and what else sets it apart, as fields of HeadConfig.

    values: the configuration; prefix: of the block's tensors. Raises ConfigError for what the ops cannot do.
    """
    for name in sorted(files.shapes):
        for part, reason in NOT_HERE.items():
            files.require(not (name.startswith(prefix) and part in name), "tensor", name, reason)
    for field in NEEDED:
        files.require(values.get(field) is not None, field, values.get(field), "must be given in config.json")
    hf = _transformers(files, values)
    gated = hf.model_type in GATED
    try:
        config = read_config(_ungated(hf) if gated else hf, str(files.folder))
    except ConfigError as error:
        raise files.error(error.field.rpartition(".")[2], error.value, error.allowed) from error
    files.require(config.vocab == target.vocab, "vocab_size", config.vocab, f"must be the target's, {target.vocab}")
    files.require(not config.sandwich_norm, "model_type", hf.model_type, "its norms after attention cannot run here")
    sliding = hf.model_type == "llama" and values.get("sliding_window")
    files.require(not sliding, "sliding_window", sliding, "must be null: Llama attends to everything")
    if not gated:
        return config, {}
    rotary_dims = int(config.head_dim * hf.rope_parameters.get("partial_rotary_factor", 1.0))
    config = replace(config, norm_offset=1.0, layers=(LayerConfig(0, _partial(hf, config.head_dim, rotary_dims)),))
    return config, {"gated": True, "rotary_dims": rotary_dims}


def _transformers(files: HeadFiles, values: Mapping) -> PretrainedConfig:
    model_type = SAME_AS.get(values["model_type"], values["model_type"])
    layers = {"num_hidden_layers": 1}
    if values.get("layer_types"):  # the target's: of a hybrid, a head's layer is one of full attention
        layers["layer_types"] = ["full_attention"]
    files.require(model_type in CONFIG_MAPPING, "model_type", model_type, "must be one that transformers knows")
    try:
        return CONFIG_MAPPING[model_type].from_dict({**values, "model_type": model_type, **layers})
    except Exception as error:  # a field of the wrong type, in words of transformers' own
        reason = " ".join(str(error).split())
        raise files.error("file", "config.json", f"must be a configuration of {model_type} ({reason})") from error


def _ungated(hf: PretrainedConfig) -> Qwen3Config:
    rope = {"rope_type": hf.rope_parameters["rope_type"], "rope_theta": hf.rope_parameters["rope_theta"]}
    return Qwen3Config.from_dict({**hf.to_dict(), "model_type": "qwen3", "rope_parameters": rope})


def _partial(hf: PretrainedConfig, head_dim: int, rotary_dims: int) -> Rotary:
    """Of the pairs (i, i + D/2) that attention rotates the first ones turn, the others by an angle of 0."""
    theta, pairs = hf.rope_parameters["rope_theta"], rotary_dims // 2
    turning = tuple(theta ** (-2 * i / rotary_dims) for i in range(pairs))
    return Rotary(turning + (0.0,) * (head_dim // 2 - pairs), 1.0)
