"""The few ops a forward pass is made of.

Each is a torch custom op with a plain PyTorch reference, which documents it, and compiled kernels. The reference serves
until `load` brings in the kernels. Only `tiled_linear` has none: it is `linear` for weights that were laid out for the
kernels (quant/tiles.py).
"""

import torch

from acctax.ops import schema  # noqa: F401  defines torch.ops.acctax.*
from acctax.ops.native import backend, load, load_cuda
from acctax.ops.reference import register_format, unpack

rms_norm = torch.ops.acctax.rms_norm.default
linear = torch.ops.acctax.linear.default
tiled_linear = torch.ops.acctax.tiled_linear.default
attend = torch.ops.acctax.attend.default
attend_at = torch.ops.acctax.attend_at.default
argmax = torch.ops.acctax.argmax.default
pick = torch.ops.acctax.pick.default
law = torch.ops.acctax.law.default
verify = torch.ops.acctax.verify.default
read_checksum = torch.ops.acctax.read_checksum.default

__all__ = [
    "argmax", "attend", "attend_at", "backend", "law", "linear", "load", "load_cuda", "pick", "read_checksum",
    "register_format", "rms_norm", "tiled_linear", "unpack", "verify",
]  # fmt: skip
