import pytest
import torch

from acctax import ops
from acctax.ops.toolchain import BuildError, compiler
from tests.ops.conftest import SANITIZED
from tests.ops.cuda.kernels import OnDevice, Shim


@pytest.fixture(scope="session", params=("shim", "cuda") if torch.cuda.is_available() else ("shim",))
def kernels_once(request: pytest.FixtureRequest) -> Shim | OnDevice:
    """The CUDA kernels, on the CPU and on the GPU if there is one."""
    if request.param == "cuda":
        ops.load_cuda()
        return OnDevice("cuda")
    try:
        compiler()
    except BuildError as error:
        pytest.skip(str(error))
    return Shim()


@pytest.fixture(params=(1,) if SANITIZED else (1, 2))
def kernels(kernels_once: Shim | OnDevice, request: pytest.FixtureRequest) -> Shim | OnDevice:
    """The CUDA kernels, on the CPU with their threads in random orders: two, or one where every access is watched."""
    kernels_once.seed(request.param)
    return kernels_once
