"""The ops as PyTorch sees them: their schemas, and the reference as the kernel where there is no other."""

import torch

from acctax.ops import reference

_AFTER_WEIGHT = (
    " Tensor? bias=None, Tensor? residual=None, bool float_out=False, Tensor? norm=None, float eps=0.0,"
    " str activation=\"\") -> Tensor"
)

SCHEMAS = {
    "rms_norm": "(Tensor x, Tensor weight, float eps, Tensor? residual=None) -> Tensor",
    "linear": "(Tensor x, Tensor codes, Tensor? scales, Tensor? global_scale, str format, int group," + _AFTER_WEIGHT,
    "tiled_linear": "(Tensor x, Tensor codes, Tensor? scales, Tensor? row_scales, str format, int group, int rows,"
    " int width," + _AFTER_WEIGHT,
    "attend": "(Tensor qkv, Tensor? q_norm, Tensor? k_norm, float eps, Tensor cos, Tensor sin, Tensor(a!) k_cache,"
    " Tensor(b!) v_cache, int position, float scale, int window=0) -> Tensor",
    "argmax": "(Tensor logits) -> Tensor",
    "pick": "(Tensor weights, float u) -> int",
    "read_checksum": "(Tensor buffer) -> int",
}

_library = torch.library.Library("acctax", "DEF")
for name, schema in SCHEMAS.items():
    _library.define(name + schema)
    if hasattr(reference, name):
        _library.impl(name, getattr(reference, name), "CompositeExplicitAutograd")
    # inference only: no detour through autograd's fallback on every call
    _library.impl(name, torch.library.fallthrough_kernel, "Autograd")
