"""The layouts of the library speculators: EAGLE-3 (`layers.0.*`, `fc`) and MTP (`mtp_layers.0.*`).

Fields of the block stand in `transformer_layer_config`. Two things that its readers take differently must be said:
EAGLE-3's `norm_before_residual` and layer ids, and which of the target's last states an MTP head takes.
"""

from acctax.draft.heads.block import read_block
from acctax.draft.heads.config import HeadConfig
from acctax.draft.heads.eagle3 import eagle3
from acctax.draft.heads.family import register
from acctax.draft.heads.files import HeadFiles
from acctax.draft.heads.mtp import state_that_config_names
from acctax.draft.heads.names import block_names, those_present
from acctax.models.config import DecoderConfig

MTP_LAYER = "mtp_layers.0."


def _transformer(files: HeadFiles) -> dict:
    values = files.values.get("transformer_layer_config")
    files.require(isinstance(values, dict), "transformer_layer_config", values, "must be given")
    return values


@register("EAGLE-3 (speculators)", "eagle", lambda files: files.values.get("speculators_model_type") == "eagle3")
def read_eagle3(files: HeadFiles, target: DecoderConfig) -> HeadConfig:
    values = files.values
    flags = {name: values.get(name, False) for name in ("norm_before_fc", "fc_norm", "norm_output")}
    return eagle3(
        files, _transformer(files), target, "layers.0.", values.get("eagle_aux_hidden_state_layer_ids"),
        values.get("norm_before_residual"), **flags,
    )  # fmt: skip


@register("MTP (speculators)", "mtp", lambda files: files.values.get("speculators_model_type") == "mtp")
def read_mtp(files: HeadFiles, target: DecoderConfig) -> HeadConfig:
    files.only_one("num_nextn_predict_layers", files.values.get("num_nextn_predict_layers", 1))
    state = state_that_config_names(files, target)
    block, extra = read_block(files, _transformer(files), MTP_LAYER, target)
    names = {
        "embed_norm": f"{MTP_LAYER}token_layernorm.weight",
        "hidden_norm": f"{MTP_LAYER}hidden_layernorm.weight",
        "input_proj": f"{MTP_LAYER}input_proj.weight",
        "attention_norm": f"{MTP_LAYER}input_layernorm.weight",
        "norm": f"{MTP_LAYER}final_layernorm.weight",
        **block_names(MTP_LAYER, block),
        **those_present(files, embedding="embed_tokens.weight", lm_head="lm_head.weight", d2t="d2t", t2d="t2d"),
    }
    drafted = files.shapes.get("d2t", (block.vocab,))[0]  # the library itself refuses the field for this kind
    return HeadConfig(
        "MTP", block, names, (state,), target.hidden, files.values.get("draft_vocab_size", drafted), wide=False,
        recycles_normed=True, **extra,
    )  # fmt: skip
