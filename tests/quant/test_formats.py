import pytest
import torch

from acctax import quant
from acctax.errors import ConfigError
from acctax.quant import PackedWeight, e2m1, nibbles
from acctax.quant import nf4 as nf4_module

QUANTIZED = ["fp8", "int8", "int4", "nvfp4", "mxfp4", "nf4"]
FORMATS = ["fp32", "bf16", *QUANTIZED]
LOSSLESS_UP_TO_SCALE = ["fp8", "int8", "nvfp4", "mxfp4", "nf4"]  # int4's amax / 7.5 is not a code


def gaussian(*shape, sigma=1.0, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed)) * sigma


def relative_error(name, weight):
    return ((quant.get(name).pack(weight).unpack() - weight).norm() / weight.norm()).item()


@pytest.mark.parametrize(
    ("name", "error"),
    [
        ("fp32", 0.0),
        ("bf16", 0.0017),
        ("fp8", 0.0264),
        ("nvfp4", 0.0953),
        ("mxfp4", 0.1118),
        ("int4", 0.1108),
        ("nf4", 0.0919),
    ],
)
def test_error_on_gaussian_weights_is_the_published_one(name, error):
    assert relative_error(name, gaussian(512, 1024)) == pytest.approx(error, abs=0.002)


def test_int8_error_is_that_of_a_uniform_step():
    weight = gaussian(512, 1024)
    step = weight.abs().amax(1) / 127
    uniform = (step.square().mean() / 12).sqrt().item()
    assert relative_error("int8", weight) == pytest.approx(uniform, rel=0.01)


@pytest.mark.parametrize("sigma", [0.02, 0.005, 1e-8, 1e4])
@pytest.mark.parametrize("name", ["nvfp4", "mxfp4", "int4", "nf4", "fp8"])
def test_error_does_not_depend_on_the_magnitude(name, sigma):
    # one level of E4M3 scales would give 0.130 at 0.02 and 0.451 at 0.005
    small, unit = gaussian(256, 512, sigma=sigma), gaussian(256, 512)
    assert relative_error(name, small) == pytest.approx(relative_error(name, unit), abs=0.002)


@pytest.mark.parametrize(
    ("name", "bits"),
    [
        ("fp32", 32),
        ("bf16", 16),
        ("fp8", 8 + 32 / 1024),
        ("int8", 8 + 32 / 1024),
        ("int4", 4 + 16 / 128),
        ("nvfp4", 4 + 8 / 16 + 32 / (256 * 1024)),
        ("mxfp4", 4 + 8 / 32),
        ("nf4", 4 + 32 / 64),
    ],
)
def test_stored_bits_per_weight(name, bits):
    packed = quant.get(name).pack(gaussian(256, 1024))
    assert packed.nbytes * 8 == bits * 256 * 1024


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16, torch.float64])
@pytest.mark.parametrize("name", FORMATS)
def test_any_float_is_packed_alike(name, dtype):
    weight = gaussian(8, 128).clamp(-3, 3).mul(16).round().div(16).to(dtype)  # held exactly by each dtype
    assert torch.equal(quant.get(name).pack(weight).unpack(), quant.get(name).pack(weight.float()).unpack())


@pytest.mark.parametrize(
    ("name", "shape"),
    [
        ("fp32", (3, 7)),
        ("bf16", (3, 7)),
        ("fp8", (3, 33)),
        ("int8", (1, 1)),
        ("int4", (3, 48)),
        ("nvfp4", (5, 48)),
        ("mxfp4", (5, 96)),
        ("nf4", (2, 33)),
        ("nf4", (6, 7)),
        ("nf4", (3, 86)),
    ],
)
def test_odd_shapes_come_back(name, shape):
    weight = gaussian(*shape)
    packed = quant.get(name).pack(weight)
    assert packed.shape == shape
    assert packed.unpack().shape == shape
    assert packed.unpack().dtype == torch.float32
    assert relative_error(name, weight) < 0.2


@pytest.mark.parametrize("name", FORMATS)
def test_a_transposed_view_is_packed_as_its_copy(name):
    weight = gaussian(128, 64).t()
    view, copy = quant.get(name).pack(weight), quant.get(name).pack(weight.contiguous())
    assert torch.equal(view.unpack(), copy.unpack())
    assert view.codes.is_contiguous()


@pytest.mark.parametrize("name", FORMATS)
def test_chunked_encoding_is_the_encoding(name, monkeypatch):
    weight = gaussian(37, 128)
    whole = quant.get(name).pack(weight)
    monkeypatch.setattr("acctax.quant.format._CHUNK", 300)
    assert torch.equal(quant.get(name).pack(weight).unpack(), whole.unpack())


@pytest.mark.parametrize("name", FORMATS)
def test_zeros_stay_zero(name):
    weight = gaussian(4, 128)
    weight[1] = 0
    weight[2, 64:] = 0
    unpacked = quant.get(name).pack(weight).unpack()
    assert torch.all(unpacked[1] == 0)
    assert torch.all(unpacked[2, 64:] == 0)
    assert torch.all(quant.get(name).pack(torch.zeros(4, 128)).unpack() == 0)


@pytest.mark.parametrize("tiny", [1e-12, 1e-30, 1e-38, 1e-44])
@pytest.mark.parametrize("name", QUANTIZED)
def test_tiny_blocks_next_to_large_ones_are_finite(name, tiny):
    weight = gaussian(4, 256)
    weight[1] = tiny
    weight[2, :128] *= tiny
    unpacked = quant.get(name).pack(weight).unpack()
    assert unpacked.isfinite().all()
    assert unpacked[1].abs().max() <= 1e-11
    alone = quant.get(name).pack(torch.full((2, 128), tiny)).unpack()
    assert alone.isfinite().all() and alone.abs().max() <= 1.2 * tiny


@pytest.mark.parametrize("name", QUANTIZED)
def test_the_largest_weights_do_not_overflow(name):
    weight = gaussian(4, 128).sign() * 1e30
    weight[0, 0] = 2e38
    assert quant.get(name).pack(weight).unpack().isfinite().all()


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), -float("inf")])
@pytest.mark.parametrize("name", FORMATS)
def test_weights_that_are_not_finite_are_refused(name, bad):
    weight = gaussian(4, 128)
    weight[3, 5] = bad
    with pytest.raises(ConfigError, match=r"weight=model\.layers\.0\.mlp\.up_proj: .*not finite"):
        quant.get(name).pack(weight, module="model.layers.0.mlp.up_proj")


def representable(name):
    """A matrix [8, 256] of values that the format holds exactly, every block using its largest code."""
    generator = torch.Generator().manual_seed(1)

    def pick(values, *shape):
        return values[torch.randint(len(values), shape, generator=generator)]

    powers = 2.0 ** torch.arange(-8.0, 1.0)
    if name == "fp8":
        codes = (gaussian(8, 256) * 100).to(torch.float8_e4m3fn).float()
        codes[:, 0] = -448
        return codes * pick(powers, 8, 1)
    if name == "int8":
        codes = torch.randint(-127, 128, (8, 256), generator=generator).float()
        codes[:, 9] = 127
        return codes * pick(powers, 8, 1)
    if name == "nf4":
        codes = pick(nf4_module.VALUES, 32, 64)
        codes[:, 5] = -1
        return (codes * torch.rand(32, 1, generator=generator)).view(8, 256)
    block = {"nvfp4": 16, "mxfp4": 32}[name]
    codes = pick(e2m1.VALUES, 8, 256 // block, block)
    codes[..., 3] = 6
    scales = pick(powers, 8, 256 // block, 1)
    if name == "nvfp4":
        scales = (scales * pick(torch.arange(8, 16) / 8, *scales.shape)).clamp(max=1)
        scales[0, 0] = 1.75
    return (codes * scales).view(8, 256)


@pytest.mark.parametrize("name", LOSSLESS_UP_TO_SCALE)
def test_a_representable_matrix_comes_back_exactly(name):
    weight = representable(name)
    assert torch.equal(quant.get(name).pack(weight).unpack(), weight)


def test_int4_is_off_by_half_a_step_at_most():
    weight = gaussian(64, 512)
    packed = quant.get("int4").pack(weight)
    # the scale's rounding to bf16 adds 7.5 / 2^8 of a step where the largest weight is clipped
    bound = packed.scales.float().repeat_interleave(128, 1) * (0.5 + 7.5 / 256)
    assert torch.all((packed.unpack() - weight).abs() <= bound)


def test_e2m1_rounds_to_the_nearest_and_ties_to_even():
    ties = torch.tensor([0.25, 0.75, 1.25, 1.75, 2.5, 3.5, 5.0, 9.0])
    rounded = torch.tensor([0.0, 1.0, 1.0, 2.0, 2.0, 4.0, 4.0, 6.0])
    assert torch.equal(e2m1.decode(e2m1.encode(ties)), rounded)
    assert torch.equal(e2m1.decode(e2m1.encode(-ties)), -rounded)
    values = torch.linspace(-6.5, 6.5, 10_000)
    distance = (e2m1.decode(e2m1.encode(values)) - values).abs()
    assert torch.equal(distance, (e2m1.VALUES[:, None] - values).abs().amin(0))


def test_even_index_is_in_the_low_nibble():
    assert nibbles.pack(torch.tensor([[1, 2, 3, 15]])).tolist() == [[0x21, 0xF3]]


def test_layouts_that_the_kernels_read():
    ramp = torch.arange(-8.0, 8.0).repeat(2, 16)  # [2, 256], amax 8 in every block
    int4 = quant.get("int4").pack(ramp / 8 * 7.5)  # scale 1
    assert (int4.codes.dtype, int4.scales.dtype, int4.group) == (torch.uint8, torch.bfloat16, 128)
    assert int4.scales.tolist() == [[1, 1], [1, 1]]
    assert int4.codes[0, :2].tolist() == [0x10, 0x32]  # -7.5, -6.5625, -5.625, -4.6875 -> -8, -7, -6, -5

    nvfp4 = quant.get("nvfp4").pack(ramp / 8 * 6 * 448)  # global scale 1, block scales 448
    assert (nvfp4.scales.dtype, nvfp4.global_scale.dtype) == (torch.float8_e4m3fn, torch.float32)
    assert nvfp4.global_scale.shape == () and nvfp4.global_scale == 1
    assert torch.all(nvfp4.scales.float() == 448) and nvfp4.scales.shape == (2, 16)
    assert nvfp4.codes[0, -1] == 0x76  # 4.5 -> 4, 5.25 -> 6

    mxfp4 = quant.get("mxfp4").pack(ramp / 8 * 6)
    assert mxfp4.scales.dtype == torch.uint8 and mxfp4.scales.shape == (2, 8)
    assert torch.all(mxfp4.scales == 127)

    nf4 = quant.get("nf4").pack(torch.tensor([[-1.0, 1.0], [0.0, 1.0]]))
    assert nf4.codes.tolist() == [0x0F, 0x7F]  # the even index in the HIGH nibble
    assert nf4.scales.tolist() == [1.0]

    fp8 = quant.get("fp8").pack(ramp)
    assert fp8.codes.dtype == torch.float8_e4m3fn and fp8.scales.shape == (2,)
    int8 = quant.get("int8").pack(ramp)
    assert int8.codes.dtype == torch.int8 and int8.codes.min() == -127


@pytest.mark.parametrize(
    ("amax", "exponent"),
    [(1.0, -2), (1.74, -2), (1.75, -1), (2.0, -1), (3.49, -1), (3.5, 0), (6.0, 0), (7.0, 1)],
)
def test_mxfp4_exponent_carries_at_1_75(amax, exponent):
    assert quant.get("mxfp4").pack(torch.full((1, 32), amax)).scales.item() == 127 + exponent


@pytest.mark.parametrize(
    ("width", "group"), [(576, 64), (1536, 128), (640, 128), (96, 32), (48, 16), (1024, 128)]
)
def test_int4_falls_back_to_the_largest_group_that_divides(width, group):
    assert quant.get("int4").check((8, width)) == group
    assert quant.get("int4").pack(gaussian(8, width)).group == group


@pytest.mark.parametrize(
    ("name", "shape", "group", "message"),
    [
        ("int4", (8, 576), 128, "group=128: must be one of 64, 32, 16 for int4, lm_head, width 576"),
        ("int4", (8, 576), 0, "group=0: must be one of 64, 32, 16 for int4, lm_head, width 576"),
        ("int4", (8, 100), None, "format=int4: needs a width divisible by 16, lm_head has width 100"),
        ("nvfp4", (8, 100), None, "format=nvfp4: needs a width divisible by 16, lm_head has width 100"),
        ("nvfp4", (8, 64), 32, "group=32: must be one of 16 for nvfp4, lm_head, width 64"),
        ("mxfp4", (8, 48), None, "format=mxfp4: needs a width divisible by 32, lm_head has width 48"),
        ("mxfp4", (8, 64), 16, "group=16: must be one of 32 for mxfp4, lm_head, width 64"),
        ("nf4", (3, 33), None, "format=nf4: needs an even number of weights, lm_head has (3, 33)"),
        ("nf4", (8, 64), 128, "group=128: must be one of 64 for nf4, lm_head, width 64"),
        ("fp8", (8, 64), 64, "group=64: fp8 takes no group (lm_head, width 64)"),
        ("int8", (8, 64), 64, "group=64: int8 takes no group (lm_head, width 64)"),
        ("bf16", (8, 64), 16, "group=16: bf16 takes no group (lm_head, width 64)"),
        ("fp32", (8, 64), 16, "group=16: fp32 takes no group (lm_head, width 64)"),
    ],
)
def test_what_does_not_fit_is_refused_in_one_line(name, shape, group, message):
    with pytest.raises(ConfigError) as refusal:
        quant.get(name).check(shape, group, "lm_head")
    assert str(refusal.value) == message
    with pytest.raises(ConfigError):
        quant.get(name).pack(gaussian(*shape), group, "lm_head")


def test_unknown_formats_and_double_names_are_refused():
    with pytest.raises(ConfigError, match="format=int3: must be one of bf16, fp32, fp8, int4"):
        quant.get("int3")
    with pytest.raises(ValueError, match="two weight formats are called nvfp4"):
        quant.register("nvfp4")(quant.Format)


def test_a_packed_weight_is_all_it_stores():
    codes, scales = torch.zeros(2, 8, dtype=torch.uint8), torch.zeros(2, 1, dtype=torch.float8_e4m3fn)
    assert PackedWeight("nvfp4", (2, 16), codes, scales, torch.tensor(1.0), 16).nbytes == 16 + 2 + 4
    assert PackedWeight("bf16", (2, 4), torch.zeros(2, 4).bfloat16(), None, None, 0).nbytes == 16
