"""The library as nvcc builds it, without a GPU: it links, loads, registers; each kernel's registers are bounded."""

import re
import shutil
import subprocess
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

import pytest
import torch

from acctax import ops
from acctax.ops.build_cuda import ARCHITECTURES, build_cuda, find_nvcc
from acctax.ops.toolchain import BuildError
from tests.ops.cuda.kernels import OPS

KERNELS = {  # entry functions whose name starts so, in each architecture's code
    "linear_kernel": 18, "pad_kernel": 1, "rms_norm_kernel": 2, "gated_kernel": 1, "attend_kernel": 1,
    "argmax_kernel": 1, "law_kernel": 1, "law_write_kernel": 1, "verify_kernel": 1,
}  # fmt: skip
MOST_REGISTERS = 200  # of 128 threads: 2 blocks fit a multiprocessor even so
MOST_SPILLED = 64  # bytes


@dataclass
class Use:
    registers: int
    spilled: int
    shared: int


@pytest.fixture(scope="module")
def library() -> Path:
    try:
        find_nvcc()
    except BuildError as error:
        pytest.skip(str(error))
    return build_cuda()


def uses(library: Path) -> dict[tuple[str, str], list[Use]]:
    """What the assembler said: (kernel, architecture) → a use of each of its instances."""
    found = defaultdict(list)
    name = spilled = None
    for line in library.with_suffix(".ptxas").read_text().splitlines():
        if entry := re.search(r"Compiling entry function '(\w+)' for 'sm_(\w+)'", line):
            name = next(kernel for kernel in KERNELS if f"{len(kernel)}{kernel}" in entry[1]), entry[2]
        elif stack := re.search(r"(\d+) bytes spill stores, (\d+) bytes spill loads", line):
            spilled = int(stack[1]) + int(stack[2])
        elif used := re.search(r"Used (\d+) registers", line):
            shared = re.search(r"(\d+) bytes smem", line)
            found[name].append(Use(int(used[1]), spilled, int(shared[1]) if shared else 0))
    return found


def test_every_kernel_is_there_for_every_architecture_and_within_bounds(library, record_property):
    found = uses(library)
    assert {key: len(instances) for key, instances in found.items()} == {
        (kernel, architecture): count for kernel, count in KERNELS.items() for architecture in ARCHITECTURES
    }
    table = []
    for (kernel, architecture), instances in sorted(found.items()):
        registers, spilled = [use.registers for use in instances], [use.spilled for use in instances]
        shared = max(use.shared for use in instances)
        table.append(f"sm_{architecture:5} {kernel:17} {min(registers):3} to {max(registers):3} registers, "
                     f"{max(spilled):3} bytes spilled, {shared:6} bytes shared")  # fmt: skip
        assert max(registers) <= MOST_REGISTERS, (kernel, architecture)
        assert max(spilled) <= MOST_SPILLED, (kernel, architecture)
        assert shared <= 48 * 1024
    record_property("what the CUDA kernels use", "\n".join(table))


def test_it_loads_without_a_gpu_and_registers_under_the_ops_names(library):
    ops.load_cuda()
    for op in OPS:
        assert torch._C._dispatch_has_kernel_for_dispatch_key(f"acctax::{op}", "CUDA"), op


def test_it_holds_the_code_of_four_architectures(library):
    """The names that nvcc gives the code of each, in the library's own strings."""
    if shutil.which("strings") is None:
        pytest.skip("no strings")
    text = subprocess.run(["strings", "-n", "4", str(library)], capture_output=True, text=True, check=True).stdout
    for architecture in ARCHITECTURES:
        assert re.search(rf"\bsm_{architecture}\b", text), architecture


def test_without_nvcc_one_line_says_so(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr("acctax.ops.build_cuda._PLACES", (str(tmp_path),))
    with pytest.raises(BuildError, match="no CUDA compiler"):
        find_nvcc()
