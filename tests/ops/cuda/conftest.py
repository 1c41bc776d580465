import pytest

from acctax.ops.toolchain import BuildError, compiler
from tests.ops.cuda.kernels import Shim


@pytest.fixture(scope="session")
def loaded_shim() -> Shim:
    try:
        compiler()
    except BuildError as error:
        pytest.skip(str(error))
    return Shim()


@pytest.fixture(params=(1, 2))
def shim(loaded_shim: Shim, request: pytest.FixtureRequest) -> Shim:
    """The CUDA kernels on the CPU, their threads in random order."""
    loaded_shim.seed(request.param)
    return loaded_shim
