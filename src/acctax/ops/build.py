"""Builds the CPU kernels with the machine's C++ compiler, once for each state of sources, torch, compiler."""

import platform
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from acctax.ops.toolchain import TORCH, TORCH_API, TORCH_LIBRARIES, cached, compiler, run, users_flags
from acctax.paths import kernels_dir

# -ffp-contract=off: a multiplication and an addition are fused where the source says so, and nowhere else
_FLAGS = ["-std=c++20", "-O2", "-ftree-vectorize", "-fPIC", "-ffp-contract=off", "-fno-math-errno", "-w"]
_AVX512 = ["-mavx512f", "-mavx512bw", "-mavx512dq", "-mavx512vl", "-mfma"]
_ISA_FLAGS = {
    "kernels_avx512bf16": [*_AVX512, "-mavx512bf16", "-mavx512vbmi", "-mavx512vnni"],
    "kernels_avx512": _AVX512,
    "kernels_avx2": ["-mavx2", "-mfma"],
}


def build() -> Path:
    """The library with the compiled kernels, built if it is not in the cache yet. Raises BuildError.

    The environment's CXX chooses the compiler, its CXXFLAGS come after our own.
    """
    cxx = compiler()
    sources = sorted(p for p in (kernels_dir() / "cpu").iterdir() if p.suffix in (".cpp", ".h", ".inl"))
    units = [p for p in sources if p.suffix == ".cpp"]
    notice = "building the CPU kernels, about 20 s, once"
    return cached("cpu", [cxx], (_FLAGS, _ISA_FLAGS, TORCH_API), sources, notice, lambda at: _build(cxx, units, at))


def _build(cxx: str, units: list[Path], folder: Path) -> Path:
    def compile_one(source: Path) -> str:
        flags = _ISA_FLAGS.get(source.stem, []) if platform.machine() in ("x86_64", "AMD64") else []
        if source.stem == "binding":
            flags = [TORCH_API, f"-I{TORCH / 'include'}"]
        target = f"{folder}/{source.stem}.o"
        run([cxx, *_FLAGS, *flags, *users_flags(), "-c", str(source), "-o", target])
        return target

    with ThreadPoolExecutor() as pool:
        objects = list(pool.map(compile_one, units))
    made = folder / "kernels.so"
    run([cxx, "-shared", *users_flags(), *objects, *TORCH_LIBRARIES, "-o", str(made)])
    return made
