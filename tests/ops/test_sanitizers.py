"""The kernels' own tests once more, with every access and every operation watched by the compiler's sanitizers."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

SANITIZE = "-O1 -fsanitize=address,undefined -fno-sanitize-recover=undefined -fno-omit-frame-pointer -g1"
FOLDER = Path(__file__).parent


def runtime() -> str:
    """The libraries that must be in the process before all others: the second has the exceptions the first watches."""
    compiler = os.environ.get("CXX") or shutil.which("g++")
    if compiler is None:
        pytest.skip("no g++")
    ask = [f"-print-file-name={name}" for name in ("libasan.so", "libstdc++.so.6")]
    paths = [subprocess.run([compiler, a], capture_output=True, text=True, check=True).stdout.strip() for a in ask]
    if not all(Path(path).is_absolute() for path in paths):
        pytest.skip(f"{compiler} has no address sanitizer")
    return " ".join(paths)


def watched(program: list[str]) -> subprocess.CompletedProcess:
    environment = {
        **os.environ,
        "CXXFLAGS": SANITIZE,
        "LD_PRELOAD": runtime(),
        "ASAN_OPTIONS": "detect_leaks=0",  # the interpreter's own
        "UBSAN_OPTIONS": "print_stacktrace=1",
    }
    return subprocess.run([sys.executable, *program], env=environment, capture_output=True, text=True,
                          cwd=FOLDER.parents[1])  # fmt: skip


def test_no_kernel_touches_what_is_not_its_own_or_does_what_is_not_defined():
    names = ("test_linear.py", "test_attend.py", "test_rows.py", "test_vocabulary.py", "test_law.py")
    done = watched(["-m", "pytest", "-q", "-x", "-s", "-p", "no:cacheprovider", "-k", "not reference",
                    *(str(FOLDER / name) for name in names)])  # fmt: skip
    assert done.returncode == 0, (done.stdout + done.stderr)[-4000:]
    assert " passed" in done.stdout


def test_a_read_beyond_the_end_does_not_pass():
    """An array that claims twice the elements it has: so that the test above is known to see something."""
    program = """
import numpy, torch
from acctax import ops
ops.load()
claimed = numpy.lib.stride_tricks.as_strided(numpy.ones(2048, "f4"), (1, 4096), (16384, 4))
ops.rms_norm(torch.from_numpy(claimed), torch.ones(4096), 1e-5)
"""
    done = watched(["-c", program])
    assert done.returncode != 0
    assert "heap-buffer-overflow" in done.stderr and "rms_norm" in done.stderr
