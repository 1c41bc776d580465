"""Tensors side by side in large pages behave like any others."""

import gc
import weakref
from concurrent.futures import ThreadPoolExecutor

import torch

from acctax import memory


def test_neighbours_do_not_overlap_and_stand_on_cache_lines():
    tensors = [memory.empty((n, 3), torch.bfloat16).fill_(n) for n in (1, 50, 7, 1000)]
    for n, tensor in zip((1, 50, 7, 1000), tensors):
        assert tensor.data_ptr() % 64 == 0 and tensor.shape == (n, 3) and tensor.dtype == torch.bfloat16
        assert torch.equal(tensor, torch.full((n, 3), n, dtype=torch.bfloat16))


def test_what_is_larger_than_a_chunk_gets_its_own_and_what_is_empty_nothing():
    large = memory.empty((memory._CHUNK + 5,), torch.uint8).fill_(1)
    assert large.data_ptr() % memory._PAGE == 0 and len(large) == memory._CHUNK + 5
    assert memory.empty((0, 4), torch.int32).shape == (0, 4)


def test_threads_that_ask_at_once_get_memory_of_their_own():
    with ThreadPoolExecutor(8) as pool:
        tensors = list(pool.map(lambda i: memory.empty((100,), torch.int64).fill_(i), range(4000)))
    assert len({tensor.data_ptr() for tensor in tensors}) == 4000
    assert all((tensor == i).all() for i, tensor in enumerate(tensors))


def test_a_chunk_goes_with_its_last_tensor():
    tensor = memory.empty((memory._CHUNK + 1,), torch.uint8)
    storage = weakref.ref(tensor.untyped_storage())
    view = tensor[:8]
    del tensor
    gc.collect()
    assert view.untyped_storage().nbytes() > memory._CHUNK
    del view
    gc.collect()
    assert storage() is None
