"""The read bandwidth of this machine, now: what a pass would take if it did nothing but read."""

from functools import cache
from time import perf_counter

import torch
from torch import Tensor

from acctax import memory, ops

BYTES = 1 << 28  # well beyond any last-level cache
PASSES = 3


@cache
def _buffer() -> Tensor:
    return memory.empty((BYTES,), torch.uint8).fill_(1)


def read_bandwidth() -> float:
    """Bytes/s of the best of a few reads of a large buffer, by all threads."""
    buffer = _buffer()
    seconds = []
    for _ in range(PASSES):
        start = perf_counter()
        ops.read_checksum(buffer)
        seconds.append(perf_counter() - start)
    return BYTES / min(seconds)
