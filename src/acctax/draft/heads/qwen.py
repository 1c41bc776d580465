"""Qwen3-Next and Qwen3.5's MTP: `mtp.{fc,norm,pre_fc_norm_embedding,pre_fc_norm_hidden,layers.0.*}`.

It takes the state after the final norm and recycles its own output after `mtp.norm`. A layer of experts is refused.
"""

from acctax.draft.heads.block import read_block
from acctax.draft.heads.config import HeadConfig
from acctax.draft.heads.family import register
from acctax.draft.heads.files import HeadFiles
from acctax.draft.heads.names import block_names
from acctax.models.config import DecoderConfig
from acctax.models.decoder import NORMED

LAYER = "mtp.layers.0."


@register("MTP (Qwen3-Next, Qwen3.5)", "mtp", lambda files: files.have("mtp."))
def read(files: HeadFiles, target: DecoderConfig) -> HeadConfig:
    values = files.values.get("text_config") or files.values
    files.only_one("mtp_num_hidden_layers", values.get("mtp_num_hidden_layers", 1))
    dedicated = values.get("mtp_use_dedicated_embeddings", False)
    files.require(dedicated is False, "mtp_use_dedicated_embeddings", dedicated, "must be false: the target's serve")
    block, extra = read_block(files, values, LAYER, target)
    names = {
        "embed_norm": "mtp.pre_fc_norm_embedding.weight",
        "hidden_norm": "mtp.pre_fc_norm_hidden.weight",
        "input_proj": "mtp.fc.weight",
        "attention_norm": f"{LAYER}input_layernorm.weight",
        "norm": "mtp.norm.weight",
        **block_names(LAYER, block),
    }
    return HeadConfig(
        "Qwen3-Next", block, names, (NORMED,), target.hidden, block.vocab, wide=False, recycles_normed=True, own="mtp.",
        **extra,
    )  # fmt: skip
