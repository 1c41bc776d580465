"""What a measurement ran on and with: numbers of different hardware or code are never compared."""

import os
import platform
import socket
import subprocess
from functools import cache
from importlib.metadata import version
from pathlib import Path

PACKAGES = ("acctax", "torch", "transformers")


@cache
def describe() -> dict[str, str]:
    """hardware, host, versions and commit of this process, as short texts."""
    return {
        "hardware": f"{_processor()}, {len(os.sched_getaffinity(0))} cores",
        "host": socket.gethostname(),
        "versions": " ".join([f"python {platform.python_version()}", *(f"{p} {version(p)}" for p in PACKAGES)]),
        "commit": _commit(),
    }


def gpu() -> str:
    """The GPU of this process, with its memory and what of its code runs."""
    import torch  # a laptop that analyses a sweep again does without

    found = torch.cuda.get_device_properties(torch.cuda.current_device())
    return f"{found.name}, {found.total_memory >> 20} MiB, CUDA {torch.version.cuda}"


def _processor() -> str:
    cpuinfo = Path("/proc/cpuinfo")
    lines = cpuinfo.read_text().splitlines() if cpuinfo.is_file() else []
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, platform.processor() or platform.machine())


def _commit() -> str:
    """The checkout's commit, "<commit>-dirty" with changes on top, the version where there is no checkout."""
    here = Path(__file__).resolve().parent
    if here.parent.name != "src":
        return f"v{version('acctax')}"
    git = ["git", "-C", str(here)]
    try:
        commit = subprocess.run([*git, "rev-parse", "HEAD"], capture_output=True, text=True, check=True).stdout.strip()
        code = [here.parents[1] / folder for folder in ("src", "kernels")]  # a cell's id covers what conf/ holds
        changed = subprocess.run([*git, "status", "--porcelain", "--", *code], capture_output=True, text=True,
                                 check=True).stdout
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
    return commit + ("-dirty" if changed.strip() else "")
