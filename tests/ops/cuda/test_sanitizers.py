"""The kernels' tests once more, with every access and operation watched by the compiler's sanitizers."""

from pathlib import Path

from tests.ops.test_sanitizers import watched

FOLDER = Path(__file__).parent
CASES = "not token_for_token and not first_token and not (attend_is_the_reference and 256)"  # the slow ones


def test_no_kernel_touches_what_is_not_its_own_or_does_what_is_not_defined():
    names = ("test_linear.py", "test_rows.py", "test_attend.py", "test_vocabulary.py")
    done = watched(["-m", "pytest", "-q", "-x", "-s", "-p", "no:cacheprovider", "-k", CASES,
                    *(str(FOLDER / name) for name in names)])  # fmt: skip
    assert done.returncode == 0, (done.stdout + done.stderr)[-4000:]
    assert " passed" in done.stdout


def test_a_read_beyond_the_end_does_not_pass():
    """An array that claims twice the elements it has."""
    program = """
import numpy, torch
from tests.ops.cuda.kernels import Shim
shim = Shim()
claimed = numpy.lib.stride_tricks.as_strided(numpy.ones(2048, "f4"), (1, 4096), (16384, 4))
shim.rms_norm(torch.from_numpy(claimed), torch.ones(4096), 1e-5)
"""
    done = watched(["-c", program])
    assert done.returncode != 0
    assert "heap-buffer-overflow" in done.stderr and "rms_norm" in done.stderr
