"""What the builds of the kernels share: one library for each state of sources and tools, and complaints of one line."""

import fcntl
import hashlib
import os
import platform
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import torch

from acctax.paths import cache_dir

TORCH = Path(torch.__file__).parent
TORCH_API = "-DTORCH_TARGET_VERSION=0x020a000000000000"  # the stable ABI as of torch 2.10
TORCH_LIBRARIES = [f"-L{TORCH / 'lib'}", "-ltorch_cpu", "-ltorch"]


class BuildError(Exception):
    """There is no library; the message is one line that says why."""


def compiler() -> str:
    """The C++ compiler: what the environment's CXX names, else the first of the usual ones."""
    wanted = os.environ.get("CXX")
    for name in [wanted] if wanted else ["g++", "clang++", "c++"]:
        if found := shutil.which(name):
            return found
    raise BuildError(f"no C++ compiler: {wanted or 'g++ or clang++'} not found")


def users_flags() -> list[str]:
    return shlex.split(os.environ.get("CXXFLAGS", ""))


def cached(
    name: str, tools: list[str], flags: object, sources: list[Path], notice: str, make: Callable[[Path], Path]
) -> Path:
    """The library made from these sources with these tools and flags; `make(folder)` makes it if it is not there yet.

    Whoever comes while another process makes one of that name waits for it. What else stands beside the library in that
    folder under its name and another suffix is kept with it.
    """
    folder = cache_dir(os.environ.get("ACCTAX_CACHE")) / "kernels"
    folder.mkdir(exist_ok=True)
    library = folder / f"{name}-{_key(tools, flags, sources)}.so"
    if library.exists():
        return library
    with (folder.parent / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if library.exists():
            return library
        print(f"acctax: {notice}", file=sys.stderr, flush=True)
        with tempfile.TemporaryDirectory(dir=folder) as workshop:
            made = make(Path(workshop))
            for extra in made.parent.glob(f"{made.stem}.*"):
                if extra.suffix not in (".o", made.suffix):
                    os.replace(extra, library.with_suffix(extra.suffix))
            os.replace(made, library)  # atomic and last: whoever looks without the lock finds all of it or nothing
    return library


def run(command: list[str]) -> str:
    """What the command says on both its streams. Raises BuildError with the first line of a complaint."""
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        said = done.stderr.splitlines() or [f"exit status {done.returncode}"]
        first_error = next((line for line in said if "error" in line), said[0])
        raise BuildError(f"{Path(command[0]).name} failed: {first_error.strip()}")
    return done.stdout + done.stderr


def _key(tools: list[str], flags: object, sources: list[Path]) -> str:
    digest = hashlib.sha256("".join(run([tool, "--version"]) for tool in tools).encode())
    digest.update(repr((torch.__version__, platform.machine(), flags, users_flags())).encode())
    for path in sources:
        digest.update(path.name.encode() + path.read_bytes())
    return digest.hexdigest()[:16]
