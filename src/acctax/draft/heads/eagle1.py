"""EAGLE (1): one state, the last after the final norm, and the token's embedding joined by `fc`; no norm anywhere but
before the MLP, and the target's own lm_head reads the block's output. SafeAILab's layout: `fc`, `layers.0.*`.
"""

from acctax.draft.heads.block import read_block
from acctax.draft.heads.config import HeadConfig
from acctax.draft.heads.family import register
from acctax.draft.heads.files import HeadFiles
from acctax.draft.heads.names import block_names, those_present
from acctax.models.config import DecoderConfig
from acctax.models.decoder import NORMED

LAYER = "layers.0."


def _knows(files: HeadFiles) -> bool:
    return "fc.weight" in files.shapes and files.have(LAYER) and "speculators_model_type" not in files.values


@register("EAGLE", "eagle", _knows)
def read(files: HeadFiles, target: DecoderConfig) -> HeadConfig:
    values = files.values
    block, extra = read_block(files, values, LAYER, target)
    files.only_one("num_hidden_layers", values.get("num_hidden_layers"))
    names = {
        "input_proj": "fc.weight",
        **({"input_proj.bias": "fc.bias"} if values.get("bias", True) else {}),  # the default of its code
        **block_names(LAYER, block),
        **those_present(files, embedding="embed_tokens.weight"),
    }
    return HeadConfig(
        "EAGLE", block, names, (NORMED,), target.hidden, block.vocab, wide=False, recycles_normed=True, **extra
    )
