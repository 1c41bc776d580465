import threading

import pytest
import torch

from acctax import ops
from acctax.errors import ConfigError
from acctax.ops import reference
from acctax.quant.packed import PackedWeight
from acctax.quant.tiles import tile
from tests.ops.packed import FORMATS, exact, linear, packed, random_packed

SHAPES = [  # format, N, K, group
    *[(format, N, K, 64) for format in FORMATS for N, K in ((1, 64), (17, 192), (50, 576))],
    *[(format, N, K, 0) for format in FORMATS[:4] for N, K in ((3, 1), (7, 37), (18, 100))],
    *[("int4", 5, 2 * group, group) for group in (2, 8, 16, 32, 48, 128, 256)],
    *[("nvfp4", 5, K, 16) for K in (16, 48, 80)],
    ("mxfp4", 5, 96, 32),
    *[("nf4", N, K, 64) for N, K in ((6, 33), (7, 40), (1, 2), (9, 96))],
    *[(format, 49152, 64, 64) for format in ("bf16", "nvfp4", "int8")],
    ("nvfp4", 262144, 64, 64),
]  # fmt: skip


def relative_error(y: torch.Tensor, exact: torch.Tensor) -> float:
    return float((y.double() - exact).norm() / exact.norm())


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize(("format", "N", "K", "group"), SHAPES)
def test_linear_is_the_float64_product_of_the_decoded_weights(backend, random, format, N, K, group, dtype):
    w = random_packed(format, N, K, group)
    x = random(3, K).to(dtype)
    y = linear(x, w, None, None, True)
    assert y.shape == (3, N) and y.dtype == torch.float32
    # NF4's values are rounded to bf16 where bf16 is multiplied: by 2^-8 at most
    rounded = format == "nf4" and dtype == torch.bfloat16 and backend == "avx512bf16"
    assert relative_error(y, exact(x, w)) < (2e-3 if rounded else 2e-6)


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_row_is_bitwise_the_same_for_every_M_and_thread_count(backend, threads, random, format, dtype):
    # as many tiles as two threads need for one row; the reference knows none
    N, K = 90 if backend == "reference" else 1410, 192
    w = random_packed(format, N, K, 32)
    x, residual, bias = random(37, K).to(dtype), random(37, N).to(dtype), random(N)
    torch.set_num_threads(1)
    one_by_one = zip(x.split(1), residual.split(1), strict=True)
    alone = torch.cat([linear(row, w, bias, r, True) for row, r in one_by_one])
    torch.set_num_threads(threads)
    for M in (*range(1, 17), 37):
        y = linear(x[-M:], w, bias, residual[-M:], True)
        assert torch.equal(y, alone[-M:]), f"M={M}"


def test_large_products_are_split_into_threads_and_stay_the_same(backend, random):
    if backend in ("reference", "scalar"):
        pytest.skip("slow")
    w, x = random_packed("nvfp4", 4096, 1024), random(5, 1024).bfloat16()
    before = torch.get_num_threads()
    results = []
    for threads in (1, 2, 3):
        torch.set_num_threads(threads)
        results.append(linear(x, w, float_out=True))
    torch.set_num_threads(before)
    assert torch.equal(results[0], results[1]) and torch.equal(results[0], results[2])


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_bias_and_residual_are_added_before_the_one_rounding(backend, random, dtype):
    w = random_packed("int8", 24, 96)
    x, bias, residual = random(4, 96).to(dtype), random(24), random(4, 24).to(dtype)
    plain = linear(x, w, float_out=True)
    y = linear(x, w, bias, residual)
    assert y.dtype == dtype
    assert torch.equal(y, (plain + bias + residual.float()).to(dtype))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_every_code_is_decoded_as_defined(backend, dtype):
    byte = torch.arange(256, dtype=torch.uint8)
    ones = torch.ones(256)
    every_byte = byte[:, None].repeat(1, 32)
    every_nibble_pair = byte[:, None].repeat(1, 16)
    half = torch.full((256, 16), 0x11, dtype=torch.uint8)
    one = torch.tensor(1.0)
    cases = [
        packed("fp8", 256, 32, every_byte.view(torch.float8_e4m3fn), ones),
        packed("int8", 256, 32, every_byte.view(torch.int8), ones),  # -128 among them: no kernel reads it
        packed("int8", 255, 32, every_byte.view(torch.int8)[torch.arange(256) != 128], ones[1:]),
        packed("int4", 256, 32, every_nibble_pair, torch.ones(256, 1).bfloat16(), None, 32),
        packed("nvfp4", 256, 32, every_nibble_pair, torch.ones(256, 2).to(torch.float8_e4m3fn), one, 16),
        packed("nvfp4", 256, 32, half, every_byte[:, :2].contiguous().view(torch.float8_e4m3fn), one, 16),
        packed("mxfp4", 256, 32, half, byte[:, None], None, 32),
        packed("nf4", 256, 64, byte[:, None].repeat(1, 32).flatten(), ones, None, 64),
    ]  # fmt: skip
    for w in cases:
        y = linear(torch.eye(w.shape[1]).to(dtype), w, None, None, True)
        close = 2**-8 if w.format == "nf4" and backend == "avx512bf16" and dtype == torch.bfloat16 else 0
        assert torch.allclose(y.T, w.unpack(), rtol=close, atol=0, equal_nan=True), w.format


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_nan_and_infinity_pass_through(backend, random, dtype):
    x = random(3, 64).to(dtype)
    x[1, 5] = torch.nan
    x[2, 7] = torch.inf
    w = random_packed("bf16", 20, 64)
    w.codes[3, 9] = torch.inf
    w.codes[4, 9] = torch.nan
    y = linear(x, w).float()
    assert y[0, 3].isinf() and y[0, 4].isnan()
    assert y[0, [n for n in range(20) if n not in (3, 4)]].isfinite().all()
    assert y[1].isnan().all()
    assert not y[2].isfinite().any()


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("value", [torch.nan, torch.inf, -torch.inf])
def test_an_activation_that_is_not_finite_spoils_its_row_and_no_other(backend, random, format, value):
    w, x = random_packed(format, 20, 192), random(3, 192).bfloat16()
    clean = linear(x, w)
    x[1, 77] = value
    y = linear(x, w)
    zeros = w.unpack()[:, 77] == 0  # zero times infinity is NaN: not finite either
    assert not y[1, ~zeros].isfinite().any()
    assert torch.equal(y[[0, 2]], clean[[0, 2]])


@pytest.mark.parametrize("format", ["nvfp4", "mxfp4", "nf4", "int4", "fp8", "int8", "nvfp4_a8"])
def test_a_scale_that_is_nan_spoils_what_it_scales_and_nothing_else(backend, random, format):
    w = random_packed(format, 20, 192, 64)
    x = random(2, 192).bfloat16()
    clean = linear(x, w)
    row = w.scales.view(20, -1)[6]
    if format == "mxfp4":
        row[-1] = 255
    else:
        row[-1:] = torch.tensor([torch.nan]).to(row.dtype)
    y = linear(x, w)
    assert y[:, 6].isnan().all()
    others = [n for n in range(20) if n != 6]
    assert torch.equal(y[:, others], clean[:, others])


def test_no_rows_give_no_rows(backend):
    assert linear(torch.empty(0, 64, dtype=torch.bfloat16), random_packed("nvfp4", 8, 64)).shape == (0, 8)


def test_int8_activations_give_the_same_bits_on_every_instruction_set(random):
    w, x = random_packed("nvfp4_a8", 50, 192), random(7, 192).bfloat16()
    results = []
    for isa in ("avx2", "avx512", "avx512bf16"):
        try:
            ops.load("native", isa)
        except ConfigError:
            pytest.skip(f"this machine has no {isa}")
        results.append(linear(x, w, float_out=True))
    ops.load()
    assert torch.equal(results[0], results[1]) and torch.equal(results[0], results[2])


def test_a_format_of_a_users_own_is_served_by_its_decoder(backend, random, monkeypatch):
    monkeypatch.setitem(reference._unpack, "thirds", lambda codes, scales, g, group, K: codes.float() / 3)
    monkeypatch.setitem(reference._activations, "thirds", lambda x: x)
    codes, x = torch.arange(12).view(3, 4), random(2, 4)
    y = PackedWeight("thirds", (3, 4), codes, None, None, 0).linear(x)
    assert relative_error(y, x.double() @ (codes.double() / 3).T) < 1e-6


def test_an_unknown_format_is_named(random):
    with pytest.raises(RuntimeError, match="fp3"):
        ops.linear(random(1, 8), random(4, 8), None, None, "fp3", 0)
    ops.load("native")
    with pytest.raises(RuntimeError, match="no kernel for the format 'fp3'"):
        ops.tiled_linear(random(1, 8), torch.zeros(1, 8, 32), None, None, "fp3", 0, 4, 8)


@pytest.mark.parametrize("backend", ["scalar", "avx512bf16"], indirect=True)
@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"codes": torch.zeros(1, 8, 32)}, "codes: has the wrong type"),
        ({"codes": torch.zeros(1, 7, 32, dtype=torch.int32)}, "codes: has 224 elements, needs 256"),
        ({"codes": torch.zeros(32, 8, dtype=torch.int32).T}, "codes: must be contiguous"),
        ({"rows": 33}, "codes: has 256 elements, needs 512"),
        ({"scales": None}, "scales are missing"),
        ({"scales": torch.zeros(1, 3, 32, dtype=torch.uint8)}, "scales: has 96 elements, needs 128"),
        ({"row_scales": torch.zeros(8)}, "row_scales: has 8 elements, needs 32"),
        ({"bias": torch.zeros(7)}, "bias: has 7 elements, needs 8"),
        ({"residual": torch.zeros(2, 8)}, "residual: has the wrong type"),
        ({"x": torch.zeros(64, 2, dtype=torch.bfloat16).T}, "x must be a contiguous"),
        ({"x": torch.zeros(2, 64, dtype=torch.float64)}, "float32 or bfloat16"),
        ({"x": torch.zeros(2, 56, dtype=torch.bfloat16), "codes": torch.zeros(1, 7, 32, dtype=torch.int32),
          "width": 56}, "blocks of 16, not 56"),
        ({"x": torch.zeros(2, 61, dtype=torch.bfloat16)}, "the weight is 8 x 64, x has 61 columns"),
        ({"residual": torch.zeros(8, 2, dtype=torch.bfloat16)}, r"residual: must be \[2, 8\]"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_refused(backend, change, message):
    w = tile(random_packed("nvfp4", 8, 64))
    arguments = {"x": torch.zeros(2, 64, dtype=torch.bfloat16), "codes": w.codes, "scales": w.scales,
                 "row_scales": w.row_scales, "format": "nvfp4", "group": 16, "rows": 8, "width": 64}  # fmt: skip
    with pytest.raises(RuntimeError, match=message):
        ops.tiled_linear(**{**arguments, **change})


def test_two_python_threads_may_call_at_once(backend, threads, random):
    work = [(random_packed(f, 64, 192), random(m, 192).bfloat16()) for f, m in (("nvfp4", 3), ("bf16", 4))]
    expected = [linear(x, w) for w, x in work]
    wrong = []

    def run(i: int) -> None:
        w, x = work[i]
        for _ in range(50):
            if not torch.equal(linear(x, w), expected[i]):
                wrong.append(i)

    callers = [threading.Thread(target=run, args=(i % 2,)) for i in range(4)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    assert not wrong
