"""Builds the CPU kernels with the machine's C++ compiler, once for each state of sources, torch, compiler."""

import hashlib
import os
import platform
import shlex
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import torch

from acctax.paths import cache_dir, kernels_dir

# -ffp-contract=off: a multiplication and an addition are fused where the source says so, and nowhere else
_FLAGS = ["-std=c++20", "-O2", "-ftree-vectorize", "-fPIC", "-ffp-contract=off", "-fno-math-errno", "-w"]
_AVX512 = ["-mavx512f", "-mavx512bw", "-mavx512dq", "-mavx512vl", "-mfma"]
_ISA_FLAGS = {
    "kernels_avx512bf16": [*_AVX512, "-mavx512bf16", "-mavx512vbmi", "-mavx512vnni"],
    "kernels_avx512": _AVX512,
    "kernels_avx2": ["-mavx2", "-mfma"],
}
_TORCH_API = "-DTORCH_TARGET_VERSION=0x020a000000000000"  # the stable ABI as of torch 2.10


class BuildError(Exception):
    """There is no library; the message is one line that says why."""


def build() -> Path:
    """The library with the compiled kernels, built if it is not in the cache yet. Raises BuildError.

    The environment's CXX chooses the compiler, its CXXFLAGS come after our own.
    """
    compiler = _compiler()
    sources = sorted(p for p in (kernels_dir() / "cpu").iterdir() if p.suffix in (".cpp", ".h", ".inl"))
    library = _cache() / f"cpu-{_key(compiler, sources)}.so"
    if not library.exists():
        print("acctax: building the CPU kernels, about 20 s, once", file=sys.stderr, flush=True)
        _build(compiler, [p for p in sources if p.suffix == ".cpp"], library)
    return library


def _compiler() -> str:
    wanted = os.environ.get("CXX")
    for name in [wanted] if wanted else ["g++", "clang++", "c++"]:
        if found := shutil.which(name):
            return found
    raise BuildError(f"no C++ compiler: {wanted or 'g++ or clang++'} not found")


def _users_flags() -> list[str]:
    return shlex.split(os.environ.get("CXXFLAGS", ""))


def _cache() -> Path:
    folder = cache_dir(os.environ.get("ACCTAX_CACHE")) / "kernels"
    folder.mkdir(exist_ok=True)
    return folder


def _key(compiler: str, sources: list[Path]) -> str:
    digest = hashlib.sha256(_run([compiler, "--version"]).encode())
    flags = (_FLAGS, _ISA_FLAGS, _TORCH_API, _users_flags())
    digest.update(repr((torch.__version__, platform.machine(), flags)).encode())
    for path in sources:
        digest.update(path.name.encode() + path.read_bytes())
    return digest.hexdigest()[:16]


def _build(compiler: str, sources: list[Path], library: Path) -> None:
    torch_dir = Path(torch.__file__).parent
    with tempfile.TemporaryDirectory(dir=library.parent) as folder, ThreadPoolExecutor() as pool:

        def compile_one(source: Path) -> str:
            flags = _ISA_FLAGS.get(source.stem, []) if platform.machine() in ("x86_64", "AMD64") else []
            if source.stem == "binding":
                flags = [_TORCH_API, f"-I{torch_dir / 'include'}"]
            target = f"{folder}/{source.stem}.o"
            _run([compiler, *_FLAGS, *flags, *_users_flags(), "-c", str(source), "-o", target])
            return target

        objects = list(pool.map(compile_one, sources))
        made = f"{folder}/kernels.so"
        libraries = [f"-L{torch_dir / 'lib'}", "-ltorch_cpu", "-ltorch"]
        _run([compiler, "-shared", *_users_flags(), *objects, *libraries, "-o", made])
        os.replace(made, library)  # atomic: two processes may build at once


def _run(command: list[str]) -> str:
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        said = done.stderr.splitlines() or [f"exit status {done.returncode}"]
        first_error = next((line for line in said if "error" in line), said[0])
        raise BuildError(f"{Path(command[0]).name} failed: {first_error.strip()}")
    return done.stdout
