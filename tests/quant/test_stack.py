"""Weights that read the same x, stored as one: the same numbers, bit for bit, or no stack at all."""

import pytest
import torch

from acctax import ops, quant
from acctax.quant.stack import stack

FORMATS = ("fp32", "bf16", "fp8", "int8", "int4", "nvfp4", "mxfp4", "nf4")


@pytest.fixture(params=["native", "reference"])
def kernels(request):
    ops.load(request.param)
    yield
    ops.load("native")


def weights(scales=(0.02, 0.5, 3.0), width=128):
    generator = torch.Generator().manual_seed(0)
    return [torch.randn(rows, width, generator=generator) * s for rows, s in zip((24, 8, 40), scales)]


@pytest.mark.parametrize("name", FORMATS)
def test_a_stack_is_its_parts_bit_for_bit(name, kernels):
    parts = [quant.get(name).pack(weight) for weight in weights()]
    whole = stack(parts)
    x = torch.randn(5, 128, generator=torch.Generator().manual_seed(1)).bfloat16()
    assert whole.shape == (72, 128)
    assert torch.equal(whole.unpack(), torch.cat([part.unpack() for part in parts]))
    assert torch.equal(whole.linear(x), torch.cat([part.linear(x) for part in parts], 1))


def test_other_formats_and_groups_are_not_stacked():
    a, b, _ = weights()
    assert stack([quant.get("int8").pack(a), quant.get("fp8").pack(b)]) is None
    assert stack([quant.get("int4").pack(a, 64), quant.get("int4").pack(b, 32)]) is None


def test_nf4_blocks_that_cross_rows_are_not_stacked():
    assert stack([quant.get("nf4").pack(weight) for weight in weights(width=96)]) is None
