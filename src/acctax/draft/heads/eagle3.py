"""EAGLE-3: three of the target's states joined by one matrix; attention reads the token's embedding beside them.

SafeAILab's layout: `midlayer.*`, `fc`, `norm`, `lm_head`, `d2t`, `t2d`. What its config.json never says is what its
code always does: the states that enter layers 2, L // 2 and L − 3, and a residual before the norm.
"""

from collections.abc import Sequence

from acctax.draft.heads.block import read_block
from acctax.draft.heads.config import HeadConfig
from acctax.draft.heads.family import register
from acctax.draft.heads.files import HeadFiles
from acctax.draft.heads.names import block_names, those_present
from acctax.models.config import DecoderConfig

NVIDIAS = ("use_aux_hidden_state", "eagle_aux_hidden_state_layer_ids", "norm_before_fc")


@register("EAGLE-3", "eagle", lambda files: files.have("midlayer."))
def read(files: HeadFiles, target: DecoderConfig) -> HeadConfig:
    values = files.values
    extra = values.get("eagle_config") or {}
    for field in extra:
        files.require(field in NVIDIAS, f"eagle_config.{field}", extra[field], f"must be one of {', '.join(NVIDIAS)}")
    uses = extra.get("use_aux_hidden_state", True)
    files.require(uses is True, "eagle_config.use_aux_hidden_state", uses, "must be true")
    L = len(target.layers)
    return eagle3(
        files, values, target, "midlayer.",
        states=extra.get("eagle_aux_hidden_state_layer_ids", (2, L // 2, L - 3)),
        norm_before_residual=values.get("norm_before_residual", False),
        norm_before_fc=extra.get("norm_before_fc", False),
        own_lm_head=True,
    )  # fmt: skip


def eagle3(
    files: HeadFiles,
    values: dict,
    target: DecoderConfig,
    layer: str,
    states: Sequence[int] | None,
    norm_before_residual: bool | None,
    norm_before_fc: bool = False,
    fc_norm: bool = False,
    norm_output: bool = False,
    own_lm_head: bool = False,
) -> HeadConfig:
    """values: the transformer's configuration; layer: prefix of the block's tensors; own_lm_head: it must bring one."""
    block, extra = read_block(files, values, layer, target)
    files.only_one("num_hidden_layers", values.get("num_hidden_layers"))
    files.require(isinstance(norm_before_residual, bool), "norm_before_residual", norm_before_residual,
                  "must be true or false: engines differ where it is not said")  # fmt: skip
    field, L = "eagle_aux_hidden_state_layer_ids", len(target.layers)
    fits = bool(states) and all(type(i) is int and 0 <= i <= L for i in states) and sorted(set(states)) == list(states)
    files.require(fits, field, states, f"must be layers of the target, ascending, 0 to {L} (i: what enters layer i)")
    for flag, value in {"norm_before_fc": norm_before_fc, "fc_norm": fc_norm, "norm_output": norm_output}.items():
        files.require(isinstance(value, bool), flag, value, "must be true or false")
    files.require(not (norm_before_fc and fc_norm), "fc_norm", True, "must be false where norm_before_fc is true")
    size = files.values.get("target_hidden_size") or block.hidden
    files.require(size == target.hidden, "target_hidden_size", size, f"must be the target's, {target.hidden}")
    draft_vocab = files.values.get("draft_vocab_size")
    files.require(type(draft_vocab) is int, "draft_vocab_size", draft_vocab, "must be given")
    names = {
        "embed_norm": f"{layer}input_layernorm.weight",
        "hidden_norm": f"{layer}hidden_norm.weight",
        "input_proj": "fc.weight",
        "norm": "norm.weight",
        **block_names(layer, block),
        **({"states_norm": "input_norm.weight"} if norm_before_fc else {}),
        **({f"state_norm.{i}": f"fc_norm.{i}.weight" for i in range(len(states))} if fc_norm else {}),
        **those_present(files, embedding="embed_tokens.weight", lm_head="lm_head.weight", d2t="d2t", t2d="t2d"),
        **({"lm_head": "lm_head.weight"} if own_lm_head else {}),
    }
    return HeadConfig(
        "EAGLE-3", block, names, tuple(states), size, draft_vocab, wide=True, recycles_normed=norm_output,
        norm_before_residual=norm_before_residual, **extra,
    )  # fmt: skip
