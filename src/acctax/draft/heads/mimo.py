"""MiMo's MTP: `model.mtp_layers.0.*` around a Qwen2 block; the state stands before the token's embedding.

Which state it takes is nowhere said: vLLM feeds the one after the final norm, llama.cpp the one before. What it
recycles stands for that state, and is therefore of the same kind.
"""

from acctax.draft.heads.block import read_block
from acctax.draft.heads.config import HeadConfig
from acctax.draft.heads.family import register
from acctax.draft.heads.files import HeadFiles
from acctax.draft.heads.mtp import state_that_config_names
from acctax.draft.heads.names import block_names
from acctax.models.config import DecoderConfig
from acctax.models.decoder import NORMED

LAYER = "model.mtp_layers.0."


@register("MTP (MiMo)", "mtp", lambda files: files.have("model.mtp_layers."))
def read(files: HeadFiles, target: DecoderConfig) -> HeadConfig:
    files.only_one("num_nextn_predict_layers", files.values.get("num_nextn_predict_layers"))
    state = state_that_config_names(files, target)
    block, extra = read_block(files, files.values, LAYER, target)
    names = {
        "embed_norm": f"{LAYER}token_layernorm.weight",
        "hidden_norm": f"{LAYER}hidden_layernorm.weight",
        "input_proj": f"{LAYER}input_proj.weight",
        "attention_norm": f"{LAYER}input_layernorm.weight",
        "norm": f"{LAYER}final_layernorm.weight",
        **block_names(LAYER, block),
    }
    return HeadConfig(
        "MiMo", block, names, (state,), target.hidden, block.vocab, wide=False, recycles_normed=state == NORMED,
        hidden_first=True, blind_start=True, own="model.mtp_layers.", **extra,
    )  # fmt: skip
