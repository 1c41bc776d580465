import pytest
import torch
from torch import Tensor

from acctax.ops import reference

MAX_LEN = 400
SHAPES = [(9, 3, 64), (2, 2, 16), (4, 1, 80), (8, 1, 256)]  # H, Hkv, D


class Inputs:
    """New rows, and a cache with rows before them; what was not written yet is NaN."""

    def __init__(self, random, H: int, Hkv: int, D: int, before: int, M: int, norms: bool = False):
        self.before, self.scale = before, D**-0.5
        self.qkv = random(M, (H + 2 * Hkv) * D).bfloat16()
        self.norms = (random(D), random(D)) if norms else (None, None)
        angles = random(MAX_LEN, D // 2)
        self.cos, self.sin = angles.cos(), angles.sin()
        keys, self.values = torch.full((2, Hkv, MAX_LEN, D), torch.nan).bfloat16()
        keys[:, :before], self.values[:, :before] = random(Hkv, before, D), random(Hkv, before, D)
        self.keys = keys.view(Hkv, MAX_LEN // 16, 16, D // 2, 2).transpose(2, 3).contiguous()

    def attend(self, op, begin: int, end: int, caches: tuple[Tensor, Tensor], window: int = 0) -> Tensor:
        return op(self.qkv[begin:end], *self.norms, 1e-6, self.cos, self.sin, *caches, self.before + begin, self.scale,
                  window)  # fmt: skip

    def caches(self) -> tuple[Tensor, Tensor]:
        return self.keys.clone(), self.values.clone()


@pytest.mark.parametrize("window", [0, 5, 140])
@pytest.mark.parametrize("norms", [False, True])
@pytest.mark.parametrize(("before", "M"), [(0, 1), (0, 20), (125, 5), (300, 16)])
@pytest.mark.parametrize(("H", "Hkv", "D"), SHAPES)
def test_attend_is_the_reference(kernels_once, random, H, Hkv, D, before, M, norms, window):
    kernels_once.seed(1 + before + window)
    inputs = Inputs(random, H, Hkv, D, before, M, norms)
    ours, theirs = inputs.caches(), inputs.caches()
    y = inputs.attend(kernels_once.attend, 0, M, ours, window)
    expected = inputs.attend(reference.attend, 0, M, theirs, window)
    torch.testing.assert_close(y.float(), expected.float(), rtol=1.6e-2, atol=1e-3)
    for cache, other in zip(ours, theirs, strict=True):
        torch.testing.assert_close(cache.float(), other.float(), rtol=1e-2, atol=1e-3, equal_nan=True)


@pytest.mark.parametrize("window", [0, 7, 130])
@pytest.mark.parametrize("before", [0, 120, 380])
def test_a_row_is_bitwise_the_same_for_every_M(kernels, random, before, window):
    rows = 18
    inputs = Inputs(random, 9, 3, 16, before, rows, norms=True)
    caches = inputs.caches()
    alone = torch.cat([inputs.attend(kernels.attend, m, m + 1, caches, window) for m in range(rows)])
    for M in (2, 5, 16, rows):
        again = inputs.caches()
        y = torch.cat([inputs.attend(kernels.attend, m, min(m + M, rows), again, window) for m in range(0, rows, M)])
        assert torch.equal(y, alone), f"M={M}"
        for cache, other in zip(caches, again, strict=True):
            assert torch.equal(cache.nan_to_num(-9), other.nan_to_num(-9))


def test_a_position_that_only_the_device_knows(kernels, random):
    inputs = Inputs(random, 6, 2, 64, 200, 3)
    expected = inputs.attend(kernels.attend, 0, 3, inputs.caches())
    keys, values = inputs.caches()
    position = torch.tensor([200], dtype=torch.int32)
    y = kernels.attend_at(inputs.qkv, None, None, 1e-6, inputs.cos, inputs.sin, keys, values, position, inputs.scale)
    assert torch.equal(y, expected)


def test_rolled_back_rows_are_overwritten_and_leave_no_trace(kernels, random):
    inputs = Inputs(random, 4, 2, 16, 124, 8)
    expected = inputs.attend(kernels.attend, 0, 8, inputs.caches())
    keys, values = inputs.caches()
    inputs.attend(kernels.attend, 0, 8, (keys, values))
    keys[:, 7, :, 15] = keys[:, 8:] = values[:, 127:] = torch.nan  # what rejected drafts left behind
    assert torch.equal(inputs.attend(kernels.attend, 3, 8, (keys, values)), expected[3:])


def test_nan_stays_in_its_row(kernels, random):
    inputs = Inputs(random, 2, 1, 16, 126, 6)
    clean = inputs.attend(kernels.attend, 0, 6, inputs.caches())
    inputs.qkv[4, 3] = torch.nan  # of q
    inputs.qkv[5, 50] = torch.nan  # of v, which the rows before do not see
    y = inputs.attend(kernels.attend, 0, 6, inputs.caches())
    assert y[4, :16].isnan().all() and y[5].isnan().any()
    assert torch.equal(y[:4], clean[:4])


@pytest.mark.parametrize("begin", [MAX_LEN - 1, -1])
def test_rows_beyond_the_cache_are_refused(kernels, random, begin):
    inputs = Inputs(random, 2, 1, 16, 0, 2)
    inputs.before = begin
    with pytest.raises(RuntimeError, match="do not fit into a cache of 400 rows"):
        inputs.attend(kernels.attend, 0, 2, inputs.caches())


def test_heads_that_no_kernel_reads_are_refused(kernels, random):
    inputs = Inputs(random, 2, 1, 12, 0, 2)
    with pytest.raises(RuntimeError, match="a multiple of 8"):
        inputs.attend(kernels.attend, 0, 2, inputs.caches())
