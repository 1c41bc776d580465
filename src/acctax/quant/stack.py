"""Several weights that read the same activations, stored as one: one pass over x, one parallel region."""

from collections.abc import Sequence

import torch
from torch import Tensor

from acctax.quant import registry
from acctax.quant.packed import PackedWeight


def stack(parts: Sequence[PackedWeight]) -> PackedWeight | None:
    """The weight [ΣN, K] whose rows are the parts' rows in order; None where their storage cannot be joined.

    A global scale of each part becomes one of each row, so that no part is quantized again.
    """
    first = parts[0]
    alike = all((part.format, part.group) == (first.format, first.group) for part in parts)
    if not alike or not registry.get(first.format).stacks(first.shape[1]):
        return None
    rows = sum(part.shape[0] for part in parts)
    codes = _join([part.codes for part in parts])
    scales = None if first.scales is None else _join([part.scales for part in parts])
    global_scale = None
    if first.global_scale is not None:
        global_scale = torch.cat([part.global_scale.expand(part.shape[0]) for part in parts])
    return PackedWeight(first.format, (rows, first.shape[1]), codes, scales, global_scale, first.group)


def _join(tensors: list[Tensor]) -> Tensor:
    """torch.cat, which does not know the 8-bit floats: their bytes are joined."""
    dtype = tensors[0].dtype
    as_bytes = [tensor.view(torch.uint8) if dtype.itemsize == 1 else tensor for tensor in tensors]
    return torch.cat(as_bytes).view(dtype)
