import os

import pytest
import torch

from acctax import memory, ops
from acctax.errors import ConfigError
from acctax.ops import reference
from tests.ops import packed

SANITIZED = "-fsanitize" in os.environ.get("CXXFLAGS", "")  # the kernels of this process watch every access
BACKENDS = ("reference", "scalar", "avx2", "avx512", "avx512bf16")


@pytest.fixture(autouse=True)
def memory_with_borders(monkeypatch: pytest.MonkeyPatch):
    """Under a sanitizer every tensor stands alone: within a shared chunk nothing would see a read beyond its end."""
    if SANITIZED:
        monkeypatch.setattr(memory, "empty", lambda shape, dtype: torch.empty(shape, dtype=dtype))


@pytest.fixture(params=BACKENDS)
def backend(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch):
    """Each way to run the ops, with the tests' own decoders behind the reference."""
    before = ops.backend()
    for name in packed.FORMATS:
        monkeypatch.setitem(reference._unpack, name, packed.unpack(name))
    if request.param == "reference":
        ops.load("reference")
    else:
        try:
            ops.load("native", isa=request.param)
        except ConfigError:
            pytest.skip(f"this machine has no {request.param}")
        assert ops.backend() == f"native {request.param}"
    yield request.param
    ops.load("reference" if before == "reference" else "native", isa=before.partition(" ")[2])


@pytest.fixture(params=(2,) if SANITIZED else (1, 2))  # two touch all that one does
def threads(request: pytest.FixtureRequest):
    before = torch.get_num_threads()
    torch.set_num_threads(request.param)
    yield request.param
    torch.set_num_threads(before)


@pytest.fixture
def random():
    """random(*shape) draws from N(0, 1), the same at every run."""
    g = torch.Generator().manual_seed(1)
    return lambda *shape: torch.randn(shape, generator=g)
