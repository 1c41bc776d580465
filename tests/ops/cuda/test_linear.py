"""The skinny linear's CUDA source, on the CPU, against the definitions of the formats."""

import pytest
import torch
from torch import Tensor

from acctax.ops import reference
from acctax.quant.packed import PackedWeight
from acctax.quant.panels import lay_out
from tests.ops import packed
from tests.ops.packed import exact, random_packed

FORMATS = ("bf16", "fp8", "int8", "int4", "nvfp4", "mxfp4", "nf4")
SHAPES = [  # format, N, K, group
    *[(format, N, K, 64) for format in FORMATS for N, K in ((1, 64), (70, 192))],
    *[(format, N, K, 0) for format in FORMATS[:3] for N, K in ((3, 1), (65, 37), (18, 100))],
    *[("int4", 5, K, group) for group, K in ((16, 48), (16, 80), (32, 96), (128, 256), (192, 192))],
    *[("nvfp4", 5, K, 16) for K in (16, 48, 80)],
    ("mxfp4", 5, 96, 32),
    *[("bf16", 20, 272, 0), ("int8", 20, 528, 0), ("nvfp4", 20, 1040, 16), ("int4", 20, 1088, 64)],  # K in two parts
]
TOLERANCE = {"nf4": 2e-3}  # its values are rounded to bf16


@pytest.fixture(autouse=True)
def definitions(monkeypatch: pytest.MonkeyPatch):
    """The tests' own decoders, behind the reference."""
    for name in packed.FORMATS:
        monkeypatch.setitem(reference._unpack, name, packed.unpack(name))


def linear(kernels, x: Tensor, weight: PackedWeight, *after, **named) -> Tensor:
    w = lay_out(weight)
    assert w is not None
    return kernels.tiled_linear(x, w.codes, w.scales, w.row_scales, w.format, w.group, *w.shape, *after, **named)


def relative_error(y: Tensor, exact: Tensor) -> float:
    return float((y.double() - exact).norm() / exact.norm())


@pytest.mark.parametrize(("format", "N", "K", "group"), SHAPES)
def test_linear_is_the_float64_product_of_the_decoded_weights(kernels, random, format, N, K, group):
    w, x = random_packed(format, N, K, group), random(5, K).bfloat16()
    y = linear(kernels, x, w, float_out=True)
    assert y.shape == (5, N) and y.dtype == torch.float32
    assert relative_error(y, exact(x, w)) < TOLERANCE.get(format, 3e-6)


@pytest.mark.parametrize(("format", "group"), [*((format, 64) for format in FORMATS), ("int4", 16), ("int4", 32)])
def test_a_row_is_bitwise_the_same_for_every_M(kernels, random, format, group):
    N, K = 66, 1088 if format in ("bf16", "nvfp4") else 192
    w = random_packed(format, N, K, group)
    x, residual, bias = random(18, K).bfloat16(), random(18, N).bfloat16(), random(N)
    whole = linear(kernels, x, w, bias, residual, True)
    for M in (1, 2, 5, 16):
        kernels.seed(M)
        assert torch.equal(linear(kernels, x[-M:], w, bias, residual[-M:], True), whole[-M:]), f"M={M}"


def test_every_code_is_decoded_as_defined(kernels):
    byte = torch.arange(256, dtype=torch.uint8)
    ones, one = torch.ones(256), torch.tensor(1.0)
    every_byte, pairs = byte[:, None].repeat(1, 32), byte[:, None].repeat(1, 16)
    half = torch.full((256, 16), 0x11, dtype=torch.uint8)
    numbers = byte[(byte & 0x7F) != 0x7F]
    scales = every_byte[:127, :2].contiguous().view(torch.float8_e4m3fn)
    cases = [
        packed.packed("fp8", 254, 32, every_byte[numbers.long()].view(torch.float8_e4m3fn), ones[:254]),
        packed.packed("int8", 255, 32, every_byte[byte != 128].view(torch.int8), ones[1:]),
        packed.packed("int4", 256, 32, pairs, ones[:, None].bfloat16(), None, 32),
        packed.packed("nvfp4", 256, 32, pairs, torch.ones(256, 2).to(torch.float8_e4m3fn), one, 16),
        packed.packed("nvfp4", 127, 32, half[:127], scales, one, 16),
        packed.packed("mxfp4", 247, 32, half[:247], byte[:247, None], None, 32),
        packed.packed("nf4", 256, 64, byte[:, None].repeat(1, 32).flatten(), ones, None, 64),
    ]  # fmt: skip
    for w in cases:
        y = linear(kernels, torch.eye(w.shape[1]).bfloat16(), w, float_out=True)
        close = 2**-8 if w.format == "nf4" else 0
        assert torch.allclose(y.T, w.unpack(), rtol=close, atol=0), w.format


def test_mxfp4_holds_blocks_of_very_different_size(kernels):
    codes = torch.full((2, 32), 0x77, dtype=torch.uint8)
    scales = torch.tensor([[120, 20], [250 - 4, 130]], dtype=torch.uint8)
    w = packed.packed("mxfp4", 2, 64, codes, scales, None, 32)
    x = torch.zeros(2, 64).bfloat16()
    x[0, 0] = x[1, 32] = 1
    assert torch.equal(linear(kernels, x, w, float_out=True).T, w.unpack()[:, [0, 32]])


@pytest.mark.parametrize(
    "weight",
    [
        packed.packed("fp8", 1, 32, torch.full((1, 32), torch.nan).to(torch.float8_e4m3fn), torch.ones(1)),
        packed.packed("int8", 1, 32, torch.full((1, 32), -128, dtype=torch.int8), torch.ones(1)),
        packed.packed("nvfp4", 1, 16, torch.zeros(1, 8, dtype=torch.uint8),
                      torch.full((1, 1), torch.nan).to(torch.float8_e4m3fn), torch.tensor(1.0), 16),
        packed.packed("mxfp4", 1, 32, torch.zeros(1, 16, dtype=torch.uint8), torch.full((1, 1), 255, dtype=torch.uint8),
                      None, 32),
        packed.packed("int4", 1, 48, torch.zeros(1, 24, dtype=torch.uint8), torch.ones(1, 1).bfloat16(), None, 48),
        random_packed("nf4", 6, 33),
        random_packed("fp32", 2, 4),
    ],
    ids=lambda weight: weight.format,
)  # fmt: skip
def test_what_no_kernel_reads_is_left_to_the_reference(weight):
    assert lay_out(weight) is None


def test_bias_and_residual_are_added_before_the_one_rounding(kernels, random):
    w = random_packed("int8", 24, 96)
    x, bias, residual = random(4, 96).bfloat16(), random(24), random(4, 24).bfloat16()
    plain = linear(kernels, x, w, float_out=True)
    y = linear(kernels, x, w, bias, residual)
    assert torch.equal(y, (plain + bias + residual.float()).bfloat16())


def test_x_is_normed_or_gated_first(kernels, random):
    w, x, weight = random_packed("nvfp4", 20, 96), random(3, 96).bfloat16(), random(96)
    y = linear(kernels, x, w, norm=weight, eps=1e-5, float_out=True)
    assert torch.equal(y, linear(kernels, kernels.rms_norm(x, weight, 1e-5), w, float_out=True))
    gate_up = (3 * random(5, 192)).bfloat16()
    for activation in ("silu", "gelu_tanh"):
        gated = reference._gated(gate_up, activation)
        y = linear(kernels, gate_up, w, activation=activation, float_out=True)
        assert relative_error(y, exact(gated, w)) < 2e-3  # the gate is rounded to bf16, half of a last bit apart


def test_nan_and_infinity_stay_in_their_rows(kernels, random):
    w, x = random_packed("nvfp4", 20, 64), random(3, 64).bfloat16()
    clean = linear(kernels, x, w)
    x[1, 5], x[2, 7] = torch.nan, torch.inf
    y = linear(kernels, x, w)
    assert torch.equal(y[0], clean[0])
    assert y[1].isnan().all() and not y[2].isfinite().any()


def test_no_rows_and_no_features(kernels):
    w = random_packed("bf16", 4, 32)
    assert linear(kernels, torch.zeros(0, 32).bfloat16(), w).shape == (0, 4)
    empty = packed.packed("bf16", 0, 32, torch.zeros(0, 32).bfloat16())
    assert linear(kernels, torch.zeros(3, 32).bfloat16(), empty).shape == (3, 0)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"format": "fp32"}, "no CUDA kernel for the format 'fp32'"),
        ({"x": torch.zeros(2, 64)}, "bfloat16"),
        ({"x": torch.zeros(2, 61).bfloat16()}, "the weight is 8 x 64, x has 61 columns"),
        ({"codes": torch.zeros(8, dtype=torch.int32)}, "codes: has 8 elements"),
        ({"scales": None}, "scales are missing"),
        ({"scales": torch.zeros(8, dtype=torch.uint8)}, "scales: has 8 elements, needs 256"),
        ({"row_scales": torch.zeros(8)}, "row_scales: has 8 elements, needs 64"),
        ({"bias": torch.zeros(7)}, "bias: has 7 elements"),
        ({"residual": torch.zeros(8, 2).bfloat16()}, r"residual: must be \[2, 8\]"),
        ({"activation": "relu"}, "no activation 'relu'"),
    ],
)
def test_what_does_not_fit_is_refused(kernels, change, message):
    w = lay_out(random_packed("nvfp4", 8, 64))
    arguments = {"x": torch.zeros(2, 64).bfloat16(), "codes": w.codes, "scales": w.scales, "row_scales": w.row_scales,
                 "format": "nvfp4", "group": 16, "rows": 8, "width": 64}  # fmt: skip
    with pytest.raises(RuntimeError, match=message):
        kernels.tiled_linear(**{**arguments, **change})
