import threading

import pytest
import torch

from acctax import ops
from acctax.ops import reference
from tests.ops.packed import FORMATS, Packed, random_packed

SHAPES = [  # format, N, K, group
    *[(format, N, K, 64) for format in FORMATS for N, K in ((1, 64), (17, 192), (50, 576))],
    *[(format, N, K, 0) for format in FORMATS[:4] for N, K in ((3, 1), (7, 37), (18, 100))],
    *[("int4", 5, 2 * group, group) for group in (2, 8, 16, 32, 48, 128, 256)],
    *[("nvfp4", 5, K, 16) for K in (16, 48, 80)],
    ("mxfp4", 5, 96, 32),
    *[("nf4", N, K, 64) for N, K in ((6, 33), (7, 40), (1, 2), (9, 96))],
    *[(format, 49152, 64, 64) for format in ("bf16", "nvfp4")],
]  # fmt: skip


def relative_error(y: torch.Tensor, exact: torch.Tensor) -> float:
    return float((y.double() - exact).norm() / exact.norm())


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize(("format", "N", "K", "group"), SHAPES)
def test_linear_is_the_float64_product_of_the_decoded_weights(backend, random, format, N, K, group, dtype):
    w = random_packed(format, N, K, group)
    x = random(3, K).to(dtype)
    y = ops.linear(x, *w.arguments, None, None, True)
    assert y.shape == (3, N) and y.dtype == torch.float32
    assert relative_error(y, x.double() @ w.unpack().double().T) < 2e-6


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_row_is_bitwise_the_same_for_every_M_and_thread_count(backend, threads, random, format, dtype):
    N, K = 90, 224  # 3.5 blocks of 64
    w = random_packed(format, N, K, 32)
    x, residual, bias = random(37, K).to(dtype), random(37, N).to(dtype), random(N)
    torch.set_num_threads(1)
    one_by_one = zip(x.split(1), residual.split(1), strict=True)
    alone = torch.cat([ops.linear(row, *w.arguments, bias, r, True) for row, r in one_by_one])
    torch.set_num_threads(threads)
    for M in (*range(1, 17), 37):
        y = ops.linear(x[-M:], *w.arguments, bias, residual[-M:], True)
        assert torch.equal(y, alone[-M:]), f"M={M}"


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_bias_and_residual_are_added_before_the_one_rounding(backend, random, dtype):
    w = random_packed("int8", 24, 96)
    x, bias, residual = random(4, 96).to(dtype), random(24), random(4, 24).to(dtype)
    plain = ops.linear(x, *w.arguments, float_out=True)
    y = ops.linear(x, *w.arguments, bias, residual)
    assert y.dtype == dtype
    assert torch.equal(y, (plain + bias + residual.float()).to(dtype))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_every_code_is_decoded_as_defined(backend, dtype):
    x = torch.eye(32).to(dtype)
    byte = torch.arange(256, dtype=torch.uint8)
    ones = torch.ones(256)
    every_byte = byte[:, None].repeat(1, 32)
    every_nibble_pair = byte[:, None].repeat(1, 16)
    half = torch.full((256, 16), 0x11, dtype=torch.uint8)
    one = torch.tensor(1.0)
    cases = [
        Packed("fp8", 256, 32, every_byte.view(torch.float8_e4m3fn), ones),
        Packed("int8", 256, 32, every_byte.view(torch.int8), ones),
        Packed("int4", 256, 32, every_nibble_pair, torch.ones(256, 1).bfloat16(), None, 32),
        Packed("nvfp4", 256, 32, every_nibble_pair, torch.ones(256, 2).to(torch.float8_e4m3fn), one, 16),
        Packed("nvfp4", 256, 32, half, every_byte[:, :2].contiguous().view(torch.float8_e4m3fn), one, 16),
        Packed("mxfp4", 256, 32, half, byte[:, None], None, 32),
        Packed("nf4", 256, 64, byte[:, None].repeat(1, 32).flatten(), ones, None, 64),
    ]  # fmt: skip
    for w in cases:
        y = ops.linear(torch.eye(w.K).to(dtype) if w.K != 32 else x, *w.arguments, None, None, True)
        assert torch.allclose(y.T, w.unpack(), rtol=0, atol=0, equal_nan=True), w.format


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_nan_and_infinity_pass_through(backend, random, dtype):
    x = random(3, 64).to(dtype)
    x[1, 5] = torch.nan
    x[2, 7] = torch.inf
    w = random_packed("bf16", 20, 64)
    w.codes[3, 9] = torch.inf
    w.codes[4, 9] = torch.nan
    y = ops.linear(x, *w.arguments, None, None, False).float()
    assert y[0, 3].isinf() and y[0, 4].isnan()
    assert y[0, [n for n in range(20) if n not in (3, 4)]].isfinite().all()
    assert y[1].isnan().all()
    assert not y[2].isfinite().any()


@pytest.mark.parametrize("format", ["nvfp4", "mxfp4", "nf4", "int4", "fp8", "int8"])
def test_a_scale_that_is_nan_spoils_what_it_scales_and_nothing_else(backend, random, format):
    w = random_packed(format, 20, 192, 64)
    x = random(2, 192).bfloat16()
    clean = ops.linear(x, *w.arguments)
    row = w.scales.view(20, -1)[6]
    if format == "mxfp4":
        row[-1] = 255
    else:
        row[-1:] = torch.tensor([torch.nan]).to(row.dtype)
    y = ops.linear(x, *w.arguments)
    assert y[:, 6].isnan().all()
    others = [n for n in range(20) if n != 6]
    assert torch.equal(y[:, others], clean[:, others])


def test_the_next_rows_scales_do_not_leak_into_an_incomplete_block(backend, random):
    w = random_packed("nvfp4", 4, 48)
    w.scales[2:] = torch.full((2, 3), torch.nan).to(torch.float8_e4m3fn)
    assert ops.linear(random(2, 48).bfloat16(), *w.arguments)[:, :2].isfinite().all()


def test_no_rows_give_no_rows(backend):
    w = random_packed("nvfp4", 8, 64)
    assert ops.linear(torch.empty(0, 64, dtype=torch.bfloat16), *w.arguments).shape == (0, 8)


def test_a_format_of_a_users_own_is_served_by_its_decoder(backend, random, monkeypatch):
    monkeypatch.setitem(reference._unpack, "thirds", lambda codes, scales, g, group, K: codes.float() / 3)
    codes, x = torch.arange(12).view(3, 4), random(2, 4)
    y = ops.linear(x, codes, None, None, "thirds", 0, None, None, False)
    assert relative_error(y, x.double() @ (codes.double() / 3).T) < 1e-6


def test_an_unknown_format_is_named(backend, random):
    with pytest.raises(RuntimeError, match="fp3"):
        ops.linear(random(1, 8), random(4, 8), None, None, "fp3", 0)


@pytest.mark.parametrize("backend", ["scalar", "avx512bf16"], indirect=True)
@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"codes": torch.zeros(8, 32, dtype=torch.int8)}, "codes: has the wrong type"),
        ({"codes": torch.zeros(8, 30, dtype=torch.uint8)}, "codes: has 240 elements, needs 256"),
        ({"codes": torch.zeros(32, 8, dtype=torch.uint8).T}, "codes: must be contiguous"),
        ({"scales": None}, "scales are missing"),
        ({"scales": torch.zeros(8, 3).to(torch.float8_e4m3fn)}, "scales: has 24 elements, needs 32"),
        ({"global_scale": None}, "global scale is missing"),
        ({"bias": torch.zeros(7)}, "bias: has 7 elements, needs 8"),
        ({"residual": torch.zeros(2, 8)}, "residual: has the wrong type"),
        ({"x": torch.zeros(64, 2, dtype=torch.bfloat16).T}, "x must be a contiguous"),
        ({"x": torch.zeros(2, 64, dtype=torch.float64)}, "float32 or bfloat16"),
        ({"x": torch.zeros(2, 56, dtype=torch.bfloat16)}, "blocks of 16, not 56"),
    ],
)
def test_what_does_not_fit_is_refused(backend, change, message):
    w = random_packed("nvfp4", 8, 64)
    arguments = {"x": torch.zeros(2, 64, dtype=torch.bfloat16), "codes": w.codes, "scales": w.scales,
                 "global_scale": w.global_scale, "format": "nvfp4", "group": 16}  # fmt: skip
    with pytest.raises(RuntimeError, match=message):
        ops.linear(**{**arguments, **change})


def test_two_python_threads_may_call_at_once(backend, threads, random):
    work = [(random_packed(f, 64, 192), random(m, 192).bfloat16()) for f, m in (("nvfp4", 3), ("bf16", 4))]
    expected = [ops.linear(x, *w.arguments) for w, x in work]
    wrong = []

    def run(i: int) -> None:
        w, x = work[i]
        for _ in range(50):
            if not torch.equal(ops.linear(x, *w.arguments), expected[i]):
                wrong.append(i)

    callers = [threading.Thread(target=run, args=(i % 2,)) for i in range(4)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    assert not wrong
