"""Brings the compiled kernels into the process, or leaves the reference in charge."""

import ctypes
import sys
import warnings

import torch

from acctax.errors import ConfigError
from acctax.ops.build import build
from acctax.ops.build_cuda import build_cuda
from acctax.ops.schema import REFERENCES
from acctax.ops.toolchain import BuildError

_library: ctypes.CDLL | None = None  # the compiled kernels, from the first "native" on
_no_library: str | None = None  # why there are none, said once
_covers: torch.library.Library | None = None  # holds the reference in front of loaded kernels
_cuda = False  # whether the CUDA kernels are loaded
_isa: str | None = None  # the instruction set in use; None: the reference serves


def load(kernels: str = "native", isa: str = "") -> None:
    """Chooses what runs the ops on the CPU; "native" builds the kernels on first use (20 s, then cached).

    isa: "avx512bf16", "avx512", "avx2" or "scalar" instead of the best that this processor runs (for tests).
    Choose before loading: a decoder's weights keep the layout, and with it the linear op, that was in charge then.
    Without a compiler, or when the build fails, one line on stderr says so and the reference serves.
    Raises ConfigError for other names and for an instruction set that this machine lacks.
    """
    global _isa
    if kernels not in ("native", "reference"):
        raise ConfigError("device.kernels", kernels, "must be native or reference")
    library = _native_library() if kernels == "native" else None
    _cover(library is None and _library is not None)
    _isa = None
    if library is not None:
        chosen = library.acctax_select_isa(isa.encode())
        if chosen is None:
            raise ConfigError("isa", isa, "this machine or its compiler does not know it")
        _isa = chosen.decode()


def load_cuda() -> None:
    """Brings in the CUDA kernels, for tensors on a GPU; builds them on first use. Raises BuildError, OSError."""
    global _cuda
    torch.ops.load_library(str(build_cuda()))
    _cuda = True
    if torch.cuda.is_available():
        # the first call makes what kernels count each other with: never while a graph is captured
        torch.ops.acctax.argmax(torch.zeros(1, 1, device="cuda"))
        torch.cuda.synchronize()


def backend(device: str = "cpu") -> str:
    """What runs the ops on "cpu" or "cuda": "reference", or "native " and an instruction set, as in `load` or sm_90."""
    if device == "cuda" and _cuda:
        return "native sm_{}{}".format(*torch.cuda.get_device_capability())
    return f"native {_isa}" if _isa and device == "cpu" else "reference"


def _native_library() -> ctypes.CDLL | None:
    global _library, _no_library
    if _library is None and _no_library is None:
        try:
            path = str(build())
            torch.ops.load_library(path)
            _library = ctypes.CDLL(path)
            _library.acctax_select_isa.restype = ctypes.c_char_p
        except (BuildError, ConfigError, OSError) as error:
            _no_library = " ".join(str(error).split())
            print(f"acctax: no compiled kernels, the slow reference serves ({_no_library})", file=sys.stderr)
    return _library


def _cover(wanted: bool) -> None:
    """Puts the reference in front of kernels that are loaded already, or takes it away again."""
    global _covers
    if wanted and _covers is None:
        _covers = torch.library.Library("acctax", "IMPL")
        with warnings.catch_warnings():  # torch warns that a kernel is overridden: it is meant to be
            warnings.simplefilter("ignore")
            for name, reference in REFERENCES.items():
                _covers.impl(name, reference, "CPU", allow_override=True)
    elif not wanted:
        _covers = None  # its registrations go with it
