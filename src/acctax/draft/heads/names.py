"""Tensor names that the families share."""

from acctax.draft.heads.files import HeadFiles
from acctax.models.config import DecoderConfig


def block_names(prefix: str, block: DecoderConfig) -> dict[str, str]:
    """Parameter → tensor of an ordinary decoder block, its norm before attention left to the family."""
    attention = {name: f"{prefix}self_attn.{name}" for name in ("q_proj", "k_proj", "v_proj", "o_proj")}
    mlp = {name: f"{prefix}mlp.{name}" for name in ("gate_proj", "up_proj", "down_proj")}
    biased = {
        **{name: attention[name] for name in ("q_proj", "k_proj", "v_proj") if block.qkv_bias},
        **({"o_proj": attention["o_proj"]} if block.o_bias else {}),
        **(mlp if block.mlp_bias else {}),
    }
    norms = {"mlp_norm": f"{prefix}post_attention_layernorm"}
    if block.qk_norm:
        norms |= {name: f"{prefix}self_attn.{name}" for name in ("q_norm", "k_norm")}
    weights = {name: f"{tensor}.weight" for name, tensor in (attention | mlp | norms).items()}
    return weights | {f"{name}.bias": f"{tensor}.bias" for name, tensor in biased.items()}


def those_present(files: HeadFiles, **names: str) -> dict[str, str]:
    """Parameter → tensor, of what a file may leave to the target."""
    return {name: tensor for name, tensor in names.items() if tensor in files.shapes}
