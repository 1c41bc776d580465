"""The KV cache: preallocated, rolled back by forgetting."""

import torch
from torch import Tensor

from acctax.models.config import DecoderConfig


class KVCache:
    """Keys and values [kv_heads, capacity, head_dim] of every layer; rows beyond `length` are stale.

    A sliding window is a mask over the full length, so that rolling back is exact: nothing was evicted.
    """

    def __init__(self, config: DecoderConfig, capacity: int, dtype: torch.dtype = torch.bfloat16):
        shape = (config.kv_heads, capacity, config.head_dim)
        self.layers: list[tuple[Tensor, Tensor]] = [
            (torch.zeros(shape, dtype=dtype), torch.zeros(shape, dtype=dtype)) for _ in config.layers
        ]
        self.capacity = capacity
        self.length = 0

    def roll_back(self, length: int) -> None:
        """Forget every row from `length` on."""
        if not 0 <= length <= self.length:
            raise ValueError(f"cannot roll back from {self.length} rows to {length}")
        self.length = length
