import pytest
import torch

from acctax import ops, quant
from acctax.quant import Format, PackedWeight


@pytest.mark.parametrize("name", ["fp32", "bf16", "fp8", "int8", "int4", "nvfp4", "mxfp4", "nf4"])
def test_linear_is_a_matrix_product_with_the_unpacked_weight(name):
    generator = torch.Generator().manual_seed(0)
    packed = quant.get(name).pack(torch.randn(24, 256, generator=generator) / 16)
    x, bias = torch.randn(3, 256, generator=generator), torch.randn(24, generator=generator)
    residual = torch.randn(3, 24, generator=generator)
    expected = x.double() @ packed.unpack().double().T
    assert torch.allclose(packed.linear(x).double(), expected, atol=1e-5)
    assert torch.allclose(packed.linear(x, bias, residual).double(), expected + bias + residual, atol=1e-5)
    rounded = packed.linear(x.bfloat16(), residual=residual.bfloat16())
    assert rounded.dtype == torch.bfloat16 and rounded.shape == (3, 24)
    assert packed.linear(x.bfloat16(), float_out=True).dtype == torch.float32


@quant.register("toy_halves")
class ToyHalves(Format):
    """Multiples of a half, in a byte: all that a new format has to bring."""

    def check(self, shape, group=None, module="weight"):
        return super().check(shape, None, module)

    def encode(self, weight, group):
        return (weight * 2).round().to(torch.int8), None, None

    def unpack(self, codes, scales, global_scale, group, width):
        return codes.float() / 2


def test_a_format_registered_from_outside_reaches_the_linear_op():
    weight = torch.tensor([[0.5, -1.0, 3.0], [0.0, 2.5, -63.5]])
    packed = quant.get("toy_halves").pack(weight)
    assert isinstance(packed, PackedWeight) and packed.nbytes == 6
    assert torch.equal(packed.unpack(), weight)
    assert torch.equal(packed.linear(torch.eye(3)), weight.T)
    assert "toy_halves" in quant.names()


def test_the_toy_format_is_served_beside_compiled_kernels_too():
    ops.load("native")
    packed = quant.get("toy_halves").pack(torch.tensor([[1.5, -2.0]]))
    assert packed.linear(torch.tensor([[2.0, 1.0]])).item() == 1.0
