"""rms_norm, read_checksum, and what `linear` does to x before the product."""

import pytest
import torch
import torch.nn.functional as F

from acctax import ops
from tests.ops.packed import linear, packed, random_packed

DTYPES = [torch.float32, torch.bfloat16]


@pytest.mark.parametrize("with_residual", [False, True])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("H", [1, 10, 64, 576])
def test_rms_norm(backend, random, H, dtype, with_residual):
    x, weight, residual = random(5, H).to(dtype), random(H), random(5, H).to(dtype)
    y = ops.rms_norm(x, weight, 1e-5, residual if with_residual else None)
    exact = F.rms_norm(x.double(), (H,), weight.double(), 1e-5) + (residual.double() if with_residual else 0)
    assert y.dtype == dtype
    torch.testing.assert_close(y.double(), exact, rtol=2e-6 if dtype == torch.float32 else 4e-3, atol=1e-6)


def gated(gate, up, activation):
    """act(gate) * up by the linear op: each element is a row of one, times a weight of one."""
    x = torch.stack([gate.flatten(), up.flatten()], 1)
    one = packed("fp32", 1, 1, torch.ones(1, 1))
    return linear(x, one, activation=activation).view(gate.shape)


@pytest.mark.parametrize("activation", ["silu", "gelu_tanh"])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("width", [1, 30, 1536])
def test_gated(backend, random, width, dtype, activation):
    gate, up = (4 * random(3, width)).to(dtype), random(3, width).to(dtype)
    y = gated(gate, up, activation)
    act = F.silu if activation == "silu" else lambda g: F.gelu(g, approximate="tanh")
    assert y.dtype == dtype
    exact = act(gate.double()) * up.double()
    torch.testing.assert_close(y.double(), exact, rtol=4e-6 if dtype == torch.float32 else 4e-3, atol=1e-6)


@pytest.mark.parametrize("activation", ["silu", "gelu_tanh"])
def test_gated_at_the_ends_of_the_range(backend, activation):
    gate = torch.tensor([[-1e30, -1e4, -104, -88, -0.0, 0, 88, 104, 1e4, 1e30, torch.inf, torch.nan]])
    y = gated(gate, torch.ones_like(gate), activation)
    expected = torch.tensor([[0.0, 0, 0, 0, 0, 0, 88, 104, 1e4, 1e30, torch.inf, torch.nan]])
    torch.testing.assert_close(y, expected, equal_nan=True)


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_row_is_bitwise_the_same_for_every_M_and_thread_count(backend, threads, random, dtype):
    weight = random(1530)
    w = random_packed("int8", 20, 1530)
    x, residual = (random(37, 1530).to(dtype) for _ in range(2))
    gate_up = random(37, 2 * 1530).to(dtype)
    run = [
        lambda rows: ops.rms_norm(x[rows], weight, 1e-5, residual[rows]),
        lambda rows: linear(x[rows], w, norm=weight, eps=1e-5),
        lambda rows: linear(gate_up[rows], w, activation="silu"),
        lambda rows: linear(gate_up[rows], w, activation="gelu_tanh"),
    ]
    for op in run:
        torch.set_num_threads(1)
        alone = torch.cat([op(slice(m, m + 1)) for m in range(37)])
        torch.set_num_threads(threads)
        for M in (*range(1, 17), 37):
            assert torch.equal(op(slice(37 - M, 37)), alone[-M:]), f"M={M}"


@pytest.mark.parametrize("dtype", DTYPES)
def test_linear_norms_x_as_rms_norm_does(backend, random, dtype):
    w, x, weight = random_packed("int8", 20, 96), random(3, 96).to(dtype), random(96)
    y = linear(x, w, norm=weight, eps=1e-5, float_out=True)
    assert torch.equal(y, linear(ops.rms_norm(x, weight, 1e-5), w, float_out=True))


def test_nan_stays_in_its_row(backend, random):
    x, weight = random(3, 20), random(20)
    clean = ops.rms_norm(x, weight, 1e-5)
    x[1, 4] = torch.nan
    y = ops.rms_norm(x, weight, 1e-5)
    assert y[1].isnan().all()
    assert torch.equal(y[[0, 2]], clean[[0, 2]])


def test_an_unknown_activation_is_named(backend, random):
    with pytest.raises(RuntimeError, match="relu"):
        gated(random(1, 8), random(1, 8), "relu")


def test_read_checksum_sums_every_word(backend, threads):
    words = torch.randint(-(2**62), 2**62, (40_001,), generator=torch.Generator().manual_seed(0))
    total = sum(words.tolist()) % 2**64
    assert ops.read_checksum(words.view(torch.uint8)) % 2**64 == total


def test_read_checksum_refuses_what_is_no_buffer_of_words(backend):
    with pytest.raises(RuntimeError, match="64-bit words"):
        ops.read_checksum(torch.zeros(12, dtype=torch.uint8))
