"""The CUDA linear without a GPU: what a weight costs in bytes and in instructions, beside the time that memory takes.

    python benchmarks/instructions.py [--arch 90a] [--bandwidth 4.3] [--multiprocessors 132] [--clock 1.755]

Counted in the machine code of the loop over K, as nvcc and nvdisasm give it (the package nvidia-cuda-nvdisasm has the
latter). A kernel serves up to 8 rows of x, another up to 16: M = 1 and M = 5 run the same instructions. The share of a
pipe is what it is busy at the given bandwidth if nothing else stands in its way: above 100 %, memory would wait for it.
"""

import argparse
import re
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from importlib.util import find_spec
from pathlib import Path

from rich.console import Console
from rich.table import Table

from acctax.ops.build_cuda import FLAGS, find_nvcc
from acctax.ops.toolchain import BuildError, run
from acctax.paths import kernels_dir
from acctax.quant.panels import FORMATS

BITS = {"bf16": 16, "fp8": 8, "int8": 8}
# A weight's share in a block scale
SCALE_BITS = {"int4": 16 / 128, "nvfp4": 8 / 16, "mxfp4": 8 / 32, "nf4": 32 / 64}
LANE_BITS = 4 * 128  # a lane reads 16 bytes of each of 4 tiles in a turn of the loop

# Where an instruction goes, by its name, and how many lanes of them a multiprocessor (capability 9.0) takes in a
# cycle. Integer multiplications, which shift and move too, take one half of the pipe of the others.
PIPES = {
    "tensor": (("HMMA",), None),
    "memory": (("LDG", "LDS", "STS", "STG", "LDC", "ULDC", "LDL", "STL"), 32),
    "multiply": (("HFMA2", "HMUL2", "HADD2", "FFMA", "FMUL", "FADD"), 128),
    "integer": (("IMAD",), 64),
    "logic": (("LOP3", "SHF", "PRMT", "IADD3", "ISETP", "SEL", "MOV", "LEA", "VIADD", "PLOP3", "SGXT"), 64),
}
ISSUE = 128  # lanes of instructions that a multiprocessor issues in a cycle


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--arch", default="90a")
    parser.add_argument("--bandwidth", type=float, default=4.3, help="TB/s of reading, as measured by a copy")
    parser.add_argument("--multiprocessors", type=int, default=132)
    parser.add_argument("--clock", type=float, default=1.755, help="GHz")
    arguments = parser.parse_args()
    cycles = arguments.multiprocessors * arguments.clock * 1e9  # of all multiprocessors, in a second
    table = Table("format", "M", "bytes", "floor, µs", "instructions", *PIPES, "issued", "of logic", "of integer",
                  title=f"a weight in sm_{arguments.arch} code; floor of 4096 x 4096, and what is busy at it, "
                        f"at {arguments.bandwidth} TB/s")  # fmt: skip
    try:
        code = disassembled(arguments.arch)
    except BuildError as error:
        sys.exit(str(error))
    for (format, rows), body in sorted(loops(code).items()):
        name = FORMATS[format]
        weights = LANE_BITS / BITS.get(name, 4)
        nbytes = (BITS.get(name, 4) + SCALE_BITS.get(name, 0)) / 8
        rate = arguments.bandwidth * 1e12 / nbytes  # weights a second, as memory gives them
        counts = Counter(pipe_of(instruction) for instruction in body)
        share = {pipe: counts[pipe] / weights * rate / cycles / lanes for pipe, (_, lanes) in PIPES.items() if lanes}
        issue = len(body) / weights * rate / cycles / ISSUE
        table.add_row(
            name, "1 to 8" if rows == 1 else "9 to 16", f"{nbytes:.4g}", f"{4096**2 / rate * 1e6:.1f}",
            f"{len(body) / weights:.2f}",
            *(f"{counts[pipe] / weights:.2f}" for pipe in PIPES),
            *(f"{100 * part:.0f} %" for part in (issue, share["logic"], share["integer"])),
        )  # fmt: skip
    Console(width=130).print(table)


def disassembled(arch: str) -> str:
    nvdisasm = find_nvdisasm()
    with tempfile.TemporaryDirectory() as folder:
        cubin = f"{folder}/linear.cubin"
        source = str(kernels_dir() / "cuda" / "linear.cu")
        run([find_nvcc(), *FLAGS, f"-arch=sm_{arch}", "-cubin", source, "-o", cubin])
        return subprocess.run([nvdisasm, "-c", cubin], capture_output=True, text=True, check=True).stdout


def find_nvdisasm() -> str:
    packaged = [Path(place) / "cu13" / "bin" / "nvdisasm" for place in (getattr(find_spec("nvidia"),
                "submodule_search_locations", None) or [])]  # fmt: skip
    for candidate in ("nvdisasm", *map(str, packaged)):
        if found := shutil.which(candidate):
            return found
    sys.exit("nvdisasm is not there: pip install nvidia-cuda-nvdisasm")


def loops(code: str) -> dict[tuple[int, int], list[str]]:
    """(format, rows / 8) → the instructions of one turn of the loop over K, int4 with a group of 64 and more."""
    found = {}
    for function in code.split(".section\t.text.")[1:]:
        kernel = re.match(r"\w*linear_kernelINS_7WeightsILNS_6FormatE(\d)ELi4EEELi(\d)E", function)
        if kernel:
            found[int(kernel[1]), int(kernel[2])] = loop_of(function)
    return found


def loop_of(function: str) -> list[str]:
    """The shortest run of instructions that jumps back to its start and holds tensor instructions."""
    labels, lines, runs = {}, [], []
    for line in function.splitlines():
        if label := re.match(r"(\.L_x_\d+):", line):
            labels[label[1]] = len(lines)
        elif instruction := re.match(r"\s+/\*[0-9a-f]+\*/\s+(.*?);?\s*$", line):
            lines.append(instruction[1])
            jump = re.search(r"BRA(?:\.\w+)*\s.*`\((\.L_x_\d+)\)", instruction[1])
            if jump and jump[1] in labels:
                runs.append(lines[labels[jump[1]] :])
    return min((body for body in runs if any("HMMA" in line for line in body)), key=len)


def pipe_of(instruction: str) -> str:
    operation = re.sub(r"^@!?U?P\d\s+", "", instruction).split()[0]
    return next((pipe for pipe, (starts, _) in PIPES.items() if operation.split(".")[0] in starts), "other")


if __name__ == "__main__":
    main()
