import pytest
import torch
import torch.nn.functional as F


@pytest.mark.parametrize("with_residual", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("H", [1, 10, 576])
def test_rms_norm(kernels, random, H, dtype, with_residual):
    x, weight, residual = random(3, H).to(dtype), random(H), random(3, H).to(dtype)
    y = kernels.rms_norm(x, weight, 1e-5, residual if with_residual else None)
    exact = F.rms_norm(x.double(), (H,), weight.double(), 1e-5) + (residual.double() if with_residual else 0)
    assert y.dtype == dtype
    torch.testing.assert_close(y.double(), exact, rtol=2e-6 if dtype == torch.float32 else 4e-3, atol=1e-6)


def test_a_row_is_bitwise_the_same_for_every_M(kernels, random):
    x, weight = random(16, 300).bfloat16(), random(300)
    whole = kernels.rms_norm(x, weight, 1e-5)
    for M in (1, 2, 5):
        assert torch.equal(kernels.rms_norm(x[-M:], weight, 1e-5), whole[-M:])


def test_nan_stays_in_its_row(kernels, random):
    x, weight = random(3, 20), random(20)
    clean = kernels.rms_norm(x, weight, 1e-5)
    x[1, 4] = torch.nan
    y = kernels.rms_norm(x, weight, 1e-5)
    assert y[1].isnan().all()
    assert torch.equal(y[[0, 2]], clean[[0, 2]])
