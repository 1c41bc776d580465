"""Weight formats with real packed storage, and recipes that say which module gets which."""

from acctax.quant import bf16, fp8, fp32, int4, int8, mxfp4, nf4, nvfp4, nvfp4_a8  # noqa: F401  each registers itself
from acctax.quant.format import Format
from acctax.quant.packed import PackedWeight
from acctax.quant.registry import get, names, register

__all__ = ["Format", "PackedWeight", "get", "names", "register"]
