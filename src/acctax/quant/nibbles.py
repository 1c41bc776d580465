"""Two 4-bit codes in a byte."""

import torch
from torch import Tensor


def pack(codes: Tensor) -> Tensor:
    """Codes 0..15 [..., K] -> uint8 [..., K / 2], the even index in the low nibble."""
    codes = codes.to(torch.uint8)
    return codes[..., 0::2] | (codes[..., 1::2] << 4)


def look_up(packed: Tensor, table: Tensor) -> Tensor:
    """uint8 [..., K / 2] -> values [..., K] of a table of 16, the even index in the low nibble."""
    byte = torch.arange(256)
    pairs = torch.stack([table[byte & 15], table[byte >> 4]], dim=1).to(packed.device)
    return pairs[packed.int()].flatten(-2)
