"""The ops as PyTorch sees them: their schemas, and the reference as the kernel where there is no other."""

import torch

from acctax.ops import reference, verification

_AFTER_WEIGHT = (
    " Tensor? bias=None, Tensor? residual=None, bool float_out=False, Tensor? norm=None, float eps=0.0,"
    " str activation=\"\") -> Tensor"
)

_ATTEND = (
    "(Tensor qkv, Tensor? q_norm, Tensor? k_norm, float eps, Tensor cos, Tensor sin, Tensor(a!) k_cache,"
    " Tensor(b!) v_cache, {} position, float scale, int window=0) -> Tensor"
)
_LAW = " float temperature, int top_k=0, float top_p=1.0) -> Tensor"

SCHEMAS = {
    "rms_norm": "(Tensor x, Tensor weight, float eps, Tensor? residual=None) -> Tensor",
    "linear": "(Tensor x, Tensor codes, Tensor? scales, Tensor? global_scale, str format, int group," + _AFTER_WEIGHT,
    "tiled_linear": "(Tensor x, Tensor codes, Tensor? scales, Tensor? row_scales, str format, int group, int rows,"
    " int width," + _AFTER_WEIGHT,
    "attend": _ATTEND.format("int"),
    "attend_at": _ATTEND.format("Tensor"),
    "argmax": "(Tensor logits) -> Tensor",
    "pick": "(Tensor weights, float u) -> int",
    "law": "(Tensor logits," + _LAW,
    "verify": "(Tensor logits, Tensor? q, Tensor drafts, Tensor u," + _LAW,
    "read_checksum": "(Tensor buffer) -> int",
}

_plain = {**vars(reference), "law": verification.law, "verify": verification.verify}
REFERENCES = {name: _plain[name] for name in SCHEMAS if name in _plain}

_library = torch.library.Library("acctax", "DEF")
for name, schema in SCHEMAS.items():
    _library.define(name + schema)
    if name in REFERENCES:
        _library.impl(name, REFERENCES[name], "CompositeExplicitAutograd")
    # inference only: no detour through autograd's fallback on every call
    _library.impl(name, torch.library.fallthrough_kernel, "Autograd")
