"""Builds the CUDA kernels with nvcc: one library with the code of four generations.

It needs no GPU, nor a CUDA build of torch.
"""

import os
import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from acctax.ops.toolchain import TORCH, TORCH_API, TORCH_LIBRARIES, BuildError, cached, compiler, run, users_flags
from acctax.paths import kernels_dir

ARCHITECTURES = ("80", "90a", "100a", "120a")

_PLACES = (os.environ.get("CUDA_HOME", ""), "/usr/local/cuda")
# -fmad=false: a multiplication and an addition are fused where the source says so, so that no two instances of a kernel
# round differently
FLAGS = ["-std=c++17", "-O3", "-fmad=false", "-Xcompiler", "-fPIC", "-Xptxas", "-v"]
_BINDING_FLAGS = ["-std=c++20", "-O2", "-fPIC", "-w"]


def build_cuda() -> Path:
    """The library with the CUDA kernels, built if it is not in the cache yet. Raises BuildError.

    Beside it, under the suffix .ptxas, stands what the assembler says of each kernel: registers, spills, shared memory.
    """
    nvcc, cxx = find_nvcc(), compiler()
    sources = sorted(p for p in (kernels_dir() / "cuda").iterdir() if p.suffix in (".cu", ".cuh", ".h", ".cpp"))
    flags = (ARCHITECTURES, FLAGS, _BINDING_FLAGS, TORCH_API)
    notice = "building the CUDA kernels, a minute or two, once"
    return cached("cuda", [nvcc, cxx], flags, sources, notice, lambda folder: _build(nvcc, cxx, sources, folder))


def find_nvcc() -> str:
    """CUDA's compiler: on the PATH, in CUDA_HOME, or where it is usually installed."""
    for candidate in ("nvcc", *(f"{place}/bin/nvcc" for place in _PLACES)):
        if found := shutil.which(candidate):
            return found
    raise BuildError("no CUDA compiler: nvcc not found on the PATH, in CUDA_HOME or in /usr/local/cuda")


def _build(nvcc: str, cxx: str, sources: list[Path], folder: Path) -> Path:
    host = ["-ccbin", cxx] if os.environ.get("CXX") else []
    codes = [f"-gencode=arch=compute_{a},code=sm_{a}" for a in ARCHITECTURES]

    def compile_one(source: Path) -> tuple[str, str]:
        target = f"{folder}/{source.stem}.o"
        if source.suffix == ".cu":
            return target, run([nvcc, *host, *FLAGS, *codes, "-t", "0", "-c", str(source), "-o", target])
        include = [TORCH_API, f"-I{TORCH / 'include'}"]
        return target, run([cxx, *_BINDING_FLAGS, *include, *users_flags(), "-c", str(source), "-o", target])

    with ThreadPoolExecutor() as pool:
        compiled = list(pool.map(compile_one, (s for s in sources if s.suffix in (".cu", ".cpp"))))
    objects = [target for target, _ in compiled]
    made = folder / "kernels.so"
    # torch's CUDA library comes with libtorch and nothing else names it
    run([nvcc, *host, "-shared", *codes, *objects, "-Xlinker", "--no-as-needed", *TORCH_LIBRARIES, "-o", str(made)])
    made.with_suffix(".ptxas").write_text("".join(said for _, said in compiled))
    return made
