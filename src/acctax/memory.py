"""Memory that a pass reads from end to end, in large pages where the system gives them.

A page of 4 KB is read in a quarter of a microsecond; then the next one's address is looked up, on a virtual machine
through two tables, and the processor does not read ahead across the border. The matrices of a small model are smaller
than a large page of 2 MB, so they share them.
"""

import ctypes
import sys
from math import prod
from threading import Lock

import torch
from torch import Tensor

_PAGE = 1 << 21  # 2 MB
_CHUNK = 1 << 26  # taken from the system at a time
_MADV_HUGEPAGE = 14  # linux/mman.h

_free = torch.empty(0, dtype=torch.uint8)  # what is left of the last chunk
_lock = Lock()


def empty(shape: tuple[int, ...], dtype: torch.dtype) -> Tensor:
    """As torch.empty on the CPU. A chunk is given back when the last tensor in it is gone, not before."""
    global _free
    nbytes = prod(shape) * dtype.itemsize
    taken = -(-nbytes // 64) * 64
    with _lock:
        if taken > _CHUNK:
            mine = _new_chunk(taken)
        else:
            if taken > len(_free):
                _free = _new_chunk(_CHUNK)
            mine, _free = _free[:taken], _free[taken:]
    return mine[:nbytes].view(dtype).view(shape)


def _new_chunk(size: int) -> Tensor:
    raw = torch.empty(size + _PAGE, dtype=torch.uint8)
    start = -raw.data_ptr() % _PAGE
    chunk = raw[start : start + size]
    if sys.platform == "linux":  # advice: where it is refused, small pages serve
        ctypes.CDLL(None).madvise(ctypes.c_void_p(chunk.data_ptr()), ctypes.c_size_t(size), _MADV_HUGEPAGE)
    return chunk
