"""The 4-bit float E2M1 that NVFP4 and MXFP4 share: a sign and 0, .5, 1, 1.5, 2, 3, 4, 6."""

import torch
from torch import Tensor

from acctax.quant import nibbles

LARGEST = 6.0
_MAGNITUDES = torch.tensor([0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0])
VALUES = torch.cat([_MAGNITUDES, -_MAGNITUDES])  # by code: bit 3 is the sign

# A magnitude's code is the number of thresholds below it. Ties go to the even code: above an even code the
# midpoint is itself the threshold, above an odd one the next float below the midpoint is.
_THRESHOLDS = (_MAGNITUDES[1:] + _MAGNITUDES[:-1]) / 2
_THRESHOLDS[1::2] = torch.nextafter(_THRESHOLDS[1::2], torch.zeros(3))


def encode(values: Tensor) -> Tensor:
    """f32 [..., K] -> packed codes, uint8 [..., K / 2]; rounds to nearest even, saturates at 6."""
    codes = torch.bucketize(values.abs(), _THRESHOLDS.to(values.device), out_int32=True)
    return nibbles.pack(codes | values.signbit().int() << 3)


def decode(packed: Tensor) -> Tensor:
    """Packed codes, uint8 [..., K / 2] -> f32 [..., K]."""
    return nibbles.look_up(packed, VALUES)
