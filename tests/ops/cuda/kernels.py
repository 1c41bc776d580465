"""The CUDA kernels for tests: on a GPU, or their own source on a CPU, as torch.ops.acctax_shim, behind shim.h."""

import ctypes
import warnings
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from unittest.mock import patch

import torch
from torch import Tensor

from acctax.ops.schema import SCHEMAS
from acctax.ops.toolchain import TORCH, TORCH_API, TORCH_LIBRARIES, cached, compiler, run, users_flags
from acctax.paths import kernels_dir
from acctax.quant import runnable
from acctax.quant.panels import lay_out

SHIM = Path(__file__).parent / "shim.h"
OPS = ("tiled_linear", "rms_norm", "attend", "attend_at", "argmax", "law", "verify")

_FLAGS = ["-std=c++20", "-O1", "-w", "-fPIC"]
_KERNEL = ["-include", str(SHIM), "-x", "c++"]
_BINDING = [TORCH_API, f"-I{TORCH / 'include'}", "-DACCTAX_LIBRARY=acctax_shim", "-DACCTAX_KEY=CPU"]


def compile_kernels(units: list[Path], made: Path) -> Path:
    """.cu files, and perhaps the binding, to one library."""
    cxx = compiler()

    def compile_one(unit: Path) -> str:
        target = f"{made.parent}/{unit.stem}.o"
        flags = _KERNEL if unit.suffix == ".cu" else _BINDING
        run([cxx, *_FLAGS, *users_flags(), *flags, "-c", str(unit), "-o", target])
        return target

    with ThreadPoolExecutor() as pool:
        objects = list(pool.map(compile_one, units))
    run([cxx, "-shared", *users_flags(), *objects, *TORCH_LIBRARIES, "-o", str(made)])
    return made


def build() -> Path:
    sources = sorted((kernels_dir() / "cuda").iterdir())
    units = [p for p in sources if p.suffix in (".cu", ".cpp")]
    flags, notice = (_FLAGS, _KERNEL, _BINDING), "building the CUDA kernels for the CPU, for tests"
    return cached("shim", [compiler()], flags, [*sources, SHIM], notice,
                  lambda folder: compile_kernels(units, folder / "kernels.so"))  # fmt: skip


class Shim:
    """The loaded library: its ops, and the order in which threads and blocks run."""

    def __init__(self):
        path = str(build())
        self._schemas = torch.library.Library("acctax_shim", "DEF")
        for name in OPS:
            self._schemas.define(name + SCHEMAS[name])
        torch.ops.load_library(path)
        self._library = ctypes.CDLL(path)

    def seed(self, seed: int) -> None:
        """0: in their own order; anything else: drawn at random."""
        self._library.shim_seed(ctypes.c_uint64(seed))

    def __getattr__(self, name: str):
        return getattr(torch.ops.acctax_shim, name)


@contextmanager
def in_charge() -> Iterator[Shim]:
    """The kernels' own source runs the ops that decoders on the CPU call, whose weights are laid out for it."""
    shim = Shim()
    covers = torch.library.Library("acctax", "IMPL")
    with warnings.catch_warnings(), patch.object(runnable, "tile", lay_out):
        warnings.simplefilter("ignore")  # torch warns that a kernel is overridden
        for name in OPS:
            covers.impl(name, getattr(shim, name).default, "CPU", allow_override=True)
        yield shim
    del covers  # its registrations go with it


class OnDevice:
    """The ops on another device, for tests whose tensors are on the CPU: what is written there comes back."""

    def __init__(self, device: str):
        self._device = device

    def seed(self, seed: int) -> None:
        """A device runs its threads in its own order."""

    def __getattr__(self, name: str):
        op = getattr(torch.ops.acctax, name).default
        arguments = op._schema.arguments

        def call(*positional, **named):
            here = {argument.name: value for argument, value in zip(arguments, positional)} | named
            there = {key: v.to(self._device, copy=True) if isinstance(v, Tensor) else v for key, v in here.items()}
            result = op(**there)
            for argument in arguments:
                if argument.alias_info is not None and argument.alias_info.is_write:
                    here[argument.name].copy_(there[argument.name])
            return result.cpu()

        return call
