"""The KV cache: preallocated, rolled back by forgetting."""

import torch
from torch import Tensor

from acctax.models.config import DecoderConfig


class KVCache:
    """Keys and values of every layer; rows beyond `length` are stale.

    Keys stand in blocks of 16 positions and in words of 32 bits, one or two elements, [kv_heads, blocks, words, 16,
    head_dim / words], values in rows, [kv_heads, capacity, head_dim]: each as `attend` reads them.

    A sliding window is a mask over the full length, so that rolling back is exact: nothing was evicted.
    """

    def __init__(self, config: DecoderConfig, capacity: int, dtype: torch.dtype = torch.bfloat16,
                 device: torch.device | str = "cpu"):  # fmt: skip
        pack = 4 // dtype.itemsize
        keys = (config.kv_heads, -(-capacity // 16), config.head_dim // pack, 16, pack)
        values = (config.kv_heads, capacity, config.head_dim)
        self.layers: list[tuple[Tensor, Tensor]] = [
            tuple(torch.zeros(shape, dtype=dtype, device=device) for shape in (keys, values)) for _ in config.layers
        ]
        self.capacity = capacity
        self.length = 0

    def roll_back(self, length: int) -> None:
        """Forget every row from `length` on."""
        if not 0 <= length <= self.length:
            raise ValueError(f"cannot roll back from {self.length} rows to {length}")
        self.length = length
