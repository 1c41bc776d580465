"""The bandwidth of this machine's memory, now: what a pass would take if it did nothing but read."""

from functools import cache
from time import perf_counter

import torch
from torch import Tensor

from acctax import memory, ops
from acctax.replayed import Recorder, seconds

BYTES = 1 << 28  # well beyond any last-level cache
BYTES_ON_GPU = 1 << 32  # read and written: a millisecond or two
PASSES = 3


def read_bandwidth(device: torch.device) -> float:
    """Bytes/s of the best of a few reads of a large buffer by all threads; on a GPU of a copy, both ways counted."""
    return _copying(device) if device.type == "cuda" else _reading()


def _reading() -> float:
    buffer = _buffer()
    spent = []
    for _ in range(PASSES):
        start = perf_counter()
        ops.read_checksum(buffer)
        spent.append(perf_counter() - start)
    return BYTES / min(spent)


def _copying(device: torch.device) -> float:
    here, there = torch.empty(2, BYTES_ON_GPU // 2, dtype=torch.uint8, device=device).unbind()
    recorder = Recorder(device)
    there.copy_(here)  # the first one is slower
    spent = []
    for _ in range(PASSES):
        start = recorder.mark()
        there.copy_(here)
        end = recorder.mark()
        recorder.wait()
        spent.append(seconds(start, end))
    return BYTES_ON_GPU / min(spent)


@cache
def _buffer() -> Tensor:
    return memory.empty((BYTES,), torch.uint8).fill_(1)
