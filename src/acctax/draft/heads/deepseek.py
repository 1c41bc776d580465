"""DeepSeek-V3 and GLM-4.5's MTP: a further layer of the model, `model.layers.{L}.{enorm,hnorm,eh_proj,…}`.

It takes the state after the final norm and recycles its own output after `shared_head.norm`.
"""

from acctax.draft.heads.block import read_block
from acctax.draft.heads.config import HeadConfig
from acctax.draft.heads.family import register
from acctax.draft.heads.files import HeadFiles
from acctax.draft.heads.names import block_names, those_present
from acctax.models.config import DecoderConfig
from acctax.models.decoder import NORMED


@register("MTP (DeepSeek-V3, GLM-4.5)", "mtp", lambda files: any(n.endswith(".eh_proj.weight") for n in files.shapes))
def read(files: HeadFiles, target: DecoderConfig) -> HeadConfig:
    values = files.values
    files.only_one("num_nextn_predict_layers", values.get("num_nextn_predict_layers"))
    L = values.get("num_hidden_layers")
    files.require(L == len(target.layers), "num_hidden_layers", L, f"must be the target's, {len(target.layers)}")
    layer = f"model.layers.{L}."
    block, extra = read_block(files, values, layer, target)
    names = {
        "embed_norm": f"{layer}enorm.weight",
        "hidden_norm": f"{layer}hnorm.weight",
        "input_proj": f"{layer}eh_proj.weight",
        "attention_norm": f"{layer}input_layernorm.weight",
        "norm": f"{layer}shared_head.norm.weight",
        **block_names(layer, block),
        **those_present(files, embedding=f"{layer}embed_tokens.weight", lm_head=f"{layer}shared_head.head.weight"),
    }
    return HeadConfig(
        "DeepSeek-V3", block, names, (NORMED,), target.hidden, block.vocab, wide=False, recycles_normed=True,
        blind_start=True, own=layer, **extra,
    )  # fmt: skip
