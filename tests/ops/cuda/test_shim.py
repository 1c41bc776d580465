"""That running CUDA source on the CPU shows what is wrong with it."""

import ctypes
from pathlib import Path

import pytest
import torch

from acctax.ops.toolchain import BuildError, compiler
from acctax.paths import kernels_dir
from tests.ops.cuda.kernels import compile_kernels

FOLDER = kernels_dir() / "cuda"


@pytest.fixture(autouse=True)
def has_compiler():
    try:
        compiler()
    except BuildError as error:
        pytest.skip(str(error))


def compiled(folder: Path, sources: dict[str, str], unit: str) -> ctypes.CDLL:
    folder.mkdir()
    for name, text in sources.items():
        (folder / name).write_text(text)
    return ctypes.CDLL(str(compile_kernels([folder / unit], folder / "kernels.so")))


def without(text: str, function: str, barrier: int) -> str:
    """The source without the given barrier of a function."""
    head, found, tail = text.partition(function)
    assert found
    parts = tail.split("__syncthreads();")
    return head + found + "__syncthreads();".join(parts[: barrier + 1]) + "".join(parts[barrier + 1 : barrier + 2]) + (
        "".join("__syncthreads();" + part for part in parts[barrier + 2 :])
    )


class RmsNorm(ctypes.Structure):
    _fields_ = [
        ("M", ctypes.c_int), ("H", ctypes.c_int), ("is_float", ctypes.c_int), ("eps", ctypes.c_float),
        ("x", ctypes.c_void_p), ("residual", ctypes.c_void_p), ("weight", ctypes.c_void_p), ("y", ctypes.c_void_p),
    ]  # fmt: skip


def wrong_seeds(library: ctypes.CDLL) -> list[int]:
    x, weight, y = torch.linspace(1, 4, 3 * 600).view(3, 600), torch.ones(600), torch.empty(3, 600)
    expected = torch.nn.functional.rms_norm(x, (600,), eps=1e-5)
    a = RmsNorm(3, 600, 1, 1e-5, x.data_ptr(), None, weight.data_ptr(), y.data_ptr())
    wrong = []
    for seed in range(6):
        library.shim_seed(ctypes.c_uint64(seed))
        assert library.acctax_cuda_rms_norm(ctypes.byref(a), None) == 0
        if not torch.allclose(y, expected):
            wrong.append(seed)
    return wrong


def test_a_missing_barrier_gives_wrong_results(tmp_path):
    sources = {path.name: path.read_text() for path in FOLDER.iterdir() if path.suffix != ".cpp"}
    assert wrong_seeds(compiled(tmp_path / "whole", sources, "rows.cu")) == []
    sources["device.cuh"] = without(sources["device.cuh"], "inline T block_sum", 1)
    assert wrong_seeds(compiled(tmp_path / "planted", sources, "rows.cu"))


TWICE = """
#include <cstdint>
#include "device.cuh"
using namespace acctax;
__global__ void kernel(int* out) {
    __shared__ int parts[8];
    const int thread = threadIdx.x;
    out[thread] = FUNCTION(thread, parts);
    out[256 + thread] = FUNCTION(2 * thread, parts);
}
extern "C" int run(int* out) { return launch(kernel, dim3(1), 256, nullptr, out); }
"""


@pytest.mark.parametrize("barrier", [0, 1])
@pytest.mark.parametrize("function", ["block_sum", "running_sum"])
def test_a_missing_barrier_is_seen_wherever_it_stood(tmp_path, function, barrier):
    """The first keeps what the last call left from being overwritten, the second from being read too early."""
    sources = {name: (FOLDER / name).read_text() for name in ("device.cuh", "kernels.h")}
    sources["twice.cu"] = TWICE.replace("FUNCTION", function)
    once = torch.arange(256).cumsum(0) if function == "running_sum" else torch.full((256,), 255 * 128)
    expected = [*once.tolist(), *(2 * once).tolist()]

    def wrong(folder: Path) -> bool:
        library, out = compiled(folder, sources, "twice.cu"), (ctypes.c_int * 512)()
        outcomes = []
        for seed in range(1, 9):
            library.shim_seed(ctypes.c_uint64(seed))
            assert library.run(out) == 0
            outcomes.append(list(out) != expected)
        return any(outcomes)

    assert not wrong(tmp_path / "whole")
    sources["device.cuh"] = without(sources["device.cuh"], f"inline T {function}", barrier)
    assert wrong(tmp_path / "planted")


WARP = """
#include <cstdint>
#include "device.cuh"
__global__ void kernel(int* out, int lanes) {
    if (threadIdx.x % 32 < lanes) out[threadIdx.x] = __shfl_xor_sync(0xffffffffu, (int)threadIdx.x, 1);
    else __syncthreads();
}
extern "C" int run(int* out, int lanes) { return acctax::launch(kernel, dim3(2), 64, nullptr, out, lanes); }
"""


def test_a_warp_that_waits_for_lanes_that_never_come_is_reported(tmp_path):
    sources = {name: (FOLDER / name).read_text() for name in ("device.cuh", "kernels.h")}
    library = compiled(tmp_path / "warp", sources | {"warp.cu": WARP}, "warp.cu")
    library.shim_error.restype = ctypes.c_char_p
    library.shim_seed(ctypes.c_uint64(1))
    out = (ctypes.c_int * 64)()
    assert library.run(out, 32) == 0
    assert list(out) == [i ^ 1 for i in range(64)]
    assert library.run(out, 20) != 0
    said = library.shim_error().decode()
    assert "24 threads wait at __syncthreads, 40 for their warp, 0 have ended" in said
