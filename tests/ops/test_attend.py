import pytest
import torch
from torch import Tensor

from acctax import ops

MAX_LEN = 48
SHAPES = [(9, 3, 64), (2, 2, 16), (4, 1, 80), (6, 2, 10)]  # H, Hkv, D


class Inputs:
    def __init__(self, random, H: int, Hkv: int, D: int, dtype: torch.dtype, M: int, norms: bool):
        self.H, self.Hkv, self.D, self.dtype = H, Hkv, D, dtype
        self.q, self.k, self.v = (random(M, heads * D).to(dtype) for heads in (H, Hkv, Hkv))
        self.norms = (random(D), random(D)) if norms else (None, None)
        angles = random(MAX_LEN, D // 2)
        self.cos, self.sin = angles.cos(), angles.sin()
        self.scale = D**-0.5

    def caches(self) -> tuple[Tensor, Tensor]:
        """Rows that nothing may read before they are written."""
        pack = 4 // self.dtype.itemsize
        shapes = (self.Hkv, MAX_LEN // 16, self.D // pack, 16, pack), (self.Hkv, MAX_LEN, self.D)
        return tuple(torch.full(shape, torch.nan, dtype=self.dtype) for shape in shapes)

    def attend(self, caches: tuple[Tensor, Tensor], begin: int, end: int, window: int = 0) -> Tensor:
        rows = slice(begin, end)
        qkv = torch.cat((self.q[rows], self.k[rows], self.v[rows]), 1)
        return ops.attend(qkv, *self.norms, 1e-6, self.cos, self.sin, *caches, begin, self.scale, window)

    def exact(self, window: int) -> Tensor:
        """In float64, but for the keys, which the cache holds in its own type."""
        M = len(self.q)

        def turned(x: Tensor, weight: Tensor | None) -> Tensor:
            x = x.double().view(M, -1, self.D)
            if weight is not None:
                x = x / (x.square().mean(-1, keepdim=True) + 1e-6).sqrt() * weight.double()
            a, b = x.chunk(2, -1)
            c, s = self.cos[:M, None].double(), self.sin[:M, None].double()
            return torch.cat((a * c - b * s, b * c + a * s), -1).transpose(0, 1)

        group = self.H // self.Hkv
        keys = turned(self.k, self.norms[1]).to(self.dtype).double().repeat_interleave(group, 0)
        values = self.v.double().view(M, -1, self.D).transpose(0, 1).repeat_interleave(group, 0)
        scores = turned(self.q, self.norms[0]) @ keys.transpose(1, 2) * self.scale
        distance = torch.arange(M)[:, None] - torch.arange(M)
        hidden = (distance < 0) | ((distance >= window) if window else False)
        weights = scores.masked_fill(hidden, -torch.inf).softmax(-1)
        return (weights @ values).transpose(0, 1).flatten(1)


def in_rows(cache: Tensor) -> Tensor:
    """[Hkv, positions, D], of values as they are cached, of keys out of their blocks."""
    return cache if cache.ndim == 3 else cache.transpose(2, 3).flatten(3).flatten(1, 2)


@pytest.mark.parametrize("window", [0, 5])
@pytest.mark.parametrize("norms", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize(("H", "Hkv", "D"), SHAPES)
def test_attend_is_causal_softmax_attention(backend, random, H, Hkv, D, dtype, norms, window):
    inputs = Inputs(random, H, Hkv, D, dtype, 20, norms)
    y = inputs.attend(inputs.caches(), 0, 20, window)
    assert y.dtype == dtype
    tolerance = 1e-5 if dtype == torch.float32 else 1.5e-2
    assert (y.double() - inputs.exact(window)).abs().max() < tolerance


@pytest.mark.parametrize("window", [0, 7])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_row_is_bitwise_the_same_for_every_M_and_thread_count(backend, threads, random, dtype, window):
    rows = 20
    inputs = Inputs(random, 9, 3, 64, dtype, rows, norms=True)
    torch.set_num_threads(1)
    caches = inputs.caches()
    alone = torch.cat([inputs.attend(caches, m, m + 1, window) for m in range(rows)])
    torch.set_num_threads(threads)
    for M in (*range(1, 17), rows):
        again = inputs.caches()
        steps = range(0, rows, M)
        y = torch.cat([inputs.attend(again, m, min(m + M, rows), window) for m in steps])
        assert torch.equal(y, alone), f"M={M}"
        for cache, other in zip(caches, again, strict=True):
            assert torch.equal(in_rows(cache)[:, :rows], in_rows(other)[:, :rows])


def test_rolled_back_rows_are_overwritten_and_leave_no_trace(backend, random):
    inputs = Inputs(random, 4, 2, 16, torch.bfloat16, 8, norms=False)
    straight, rolled = inputs.caches(), inputs.caches()
    expected = inputs.attend(straight, 0, 8)
    inputs.attend(rolled, 0, 8)
    rolled[0][:, 0, :, 3:] = rolled[1][:, 3:] = torch.nan  # what rejected drafts left behind
    assert torch.equal(inputs.attend(rolled, 3, 8), expected[3:])


def test_infinity_and_nan_pass_through_their_own_rows_only(backend, random):
    inputs = Inputs(random, 2, 1, 16, torch.float32, 6, norms=False)
    clean = inputs.attend(inputs.caches(), 0, 6)
    inputs.q[2, 3] = torch.nan
    y = inputs.attend(inputs.caches(), 0, 6)
    assert y[2, :16].isnan().all()
    assert torch.equal(y[[0, 1, 3, 4, 5]], clean[[0, 1, 3, 4, 5]])


@pytest.mark.parametrize(("heads", "D"), [(0, 16), (1, 0)])
def test_caches_that_hold_nothing_are_refused(backend, heads, D):
    if backend == "reference":
        pytest.skip("plain PyTorch divides by zero in its own words")
    caches = torch.zeros(heads, 1, D, 16, 1), torch.zeros(heads, 16, D)
    with pytest.raises(RuntimeError, match="hold nothing"):
        ops.attend(torch.zeros(1, 48), None, None, 0.0, torch.zeros(16, 8), torch.zeros(16, 8), *caches, 0, 1.0)


def test_a_position_beyond_counting_is_refused(backend, random):
    inputs = Inputs(random, 2, 1, 16, torch.float32, 2, norms=False)
    qkv = torch.cat((inputs.q, inputs.k, inputs.v), 1)
    with pytest.raises(RuntimeError, match="do not fit into a cache of 48 rows"):
        ops.attend(qkv, None, None, 1e-6, inputs.cos, inputs.sin, *inputs.caches(), 2**63 - 2, 0.25)


@pytest.mark.parametrize(("begin", "end"), [(MAX_LEN - 3, MAX_LEN + 1), (-1, 2)])
def test_rows_beyond_the_cache_are_refused(backend, random, begin, end):
    inputs = Inputs(random, 2, 1, 16, torch.float32, end - begin, norms=False)
    caches = inputs.caches()
    qkv, tables = torch.cat((inputs.q, inputs.k, inputs.v), 1), (inputs.cos, inputs.sin)
    with pytest.raises(RuntimeError, match="do not fit into a cache of 48 rows"):
        ops.attend(qkv, None, None, 1e-6, *tables, *caches, begin, 0.25, 0)
    assert all(cache.isnan().all() for cache in caches)


def test_caches_that_are_not_contiguous_are_refused(backend, random):
    inputs = Inputs(random, 2, 1, 16, torch.float32, 2, norms=False)
    sliced = torch.zeros(1, MAX_LEN // 16, 16, 16, 2)[..., :1], torch.zeros(1, MAX_LEN, 32)[..., :16]
    with pytest.raises(RuntimeError, match="contiguous"):
        inputs.attend(sliced, 0, 2)
