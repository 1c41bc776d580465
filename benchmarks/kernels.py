"""The skinny linear, format by format: share of the read bandwidth at M = 1, and what more rows cost.

    python benchmarks/kernels.py [--rounds 15] [--shape 4096x4096] [--formats bf16,int8,...] [--threads 2]

All figures come from the same interleaved rounds. Several copies of each matrix take turns, so that no pass finds its
weights in a cache, and the read bandwidth is that of a plain sum over these very copies: on a virtual machine it
differs from one piece of memory to the next. Peers (torch, bitsandbytes) stand beside the formats they serve; one that
is absent is named.
"""

import sys

sys.path.pop(0)  # this folder: from it, this file would be taken for the package `kernels` that peers import

import argparse  # noqa: E402
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, replace
from statistics import median
from time import perf_counter

import torch
from rich.console import Console
from rich.table import Table
from torch import Tensor

from acctax import environment, memory, ops, quant
from acctax.quant.tiles import tile

FORMATS = ("bf16", "fp8", "int8", "int4", "nvfp4", "mxfp4", "nf4", "nvfp4_a8")
WIDTHS = (1, 2, 5, 8, 16)
CACHE_BYTES = 1 << 27  # copies of a matrix cover at least this much

Linear = Callable[[Tensor], Tensor]


@dataclass
class Contender:
    nbytes: int  # stored: codes and scales
    copies: list[tuple[Linear, Tensor]]  # a product, and the codes that it reads


def copies_of(codes: Tensor, nbytes: int, linear: Callable[[Tensor], Linear]) -> Contender:
    """As many copies of the codes as a cache cannot hold, each with its product."""
    copies = [memory.empty(codes.shape, codes.dtype).copy_(codes) for _ in range(1 + CACHE_BYTES // codes.nbytes)]
    return Contender(nbytes, [(linear(copy), copy.view(torch.uint8).flatten()) for copy in copies])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--shape", default="4096x4096", help="output x input features")
    parser.add_argument("--formats", default=",".join(FORMATS))
    parser.add_argument("--threads", type=int, default=2)
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    ops.load()
    rows, columns = map(int, arguments.shape.split("x"))
    weight = torch.randn(rows, columns).mul_(0.02).bfloat16()
    contenders = {name: ours(weight, name) for name in arguments.formats.split(",")} | peers(weight)
    check(contenders, weight)
    seconds = clock(contenders, columns, arguments.rounds)
    Console(width=110).print(table(contenders, seconds, arguments.shape))


def ours(weight: Tensor, name: str) -> Contender:
    packed = quant.get(name).pack(weight)
    tiled = tile(packed)
    return copies_of(tiled.codes, packed.nbytes, lambda codes: replace(tiled, codes=codes).linear)


def peers(weight: Tensor) -> dict[str, Contender]:
    found = {}
    for name, peer in (("torch bf16", torch_bf16), ("torch int8", torch_int8), ("torch int4", torch_int4),
                       ("bitsandbytes nf4", bitsandbytes_nf4)):  # fmt: skip
        try:
            found[name] = peer(weight)
        except (ImportError, AttributeError, RuntimeError) as error:
            print(f"{name}: absent ({str(error).splitlines()[0]})")
    return found


def torch_bf16(weight: Tensor) -> Contender:
    return copies_of(weight, weight.nbytes, lambda w: lambda x: torch.nn.functional.linear(x, w))


def torch_int8(weight: Tensor) -> Contender:
    scale = weight.float().abs().amax(1) / 127
    codes = (weight.float() / scale[:, None]).round().to(torch.int8)
    scale = scale.bfloat16()
    return copies_of(codes, codes.nbytes + scale.nbytes, lambda w: lambda x: torch._weight_int8pack_mm(x, w, scale))


def torch_int4(weight: Tensor) -> Contender:
    rows, columns = weight.shape
    groups = weight.float().unflatten(1, (-1, 128))  # w = (code - 8) * scale + zero
    scale = groups.abs().amax(2) / 7.5
    codes = (groups / scale[..., None]).round().clamp(-8, 7).add(8).flatten(1).int()
    scales = torch.stack([scale.T, torch.zeros_like(scale.T)], 2).bfloat16()
    packed = torch._convert_weight_to_int4pack_for_cpu(codes, 1)
    nbytes = packed.nbytes + scales.nbytes
    return copies_of(packed, nbytes, lambda w: lambda x: torch._weight_int4pack_mm_for_cpu(x, w, 128, scales))


def bitsandbytes_nf4(weight: Tensor) -> Contender:
    import bitsandbytes
    from bitsandbytes import functional

    codes, state = functional.quantize_4bit(weight, quant_type="nf4")
    codes, state = functional._convert_weight_packed_for_cpu(codes, state)  # as its Linear4bit does for inference
    nbytes = codes.nbytes + weight.numel() // 64 * 4
    return copies_of(codes, nbytes, lambda w: lambda x: bitsandbytes.matmul_4bit(x, w, quant_state=state))


def check(contenders: dict[str, Contender], weight: Tensor) -> None:
    """Whoever is timed must compute the product, as well as its bits allow."""
    x = torch.randn(5, weight.shape[1]).bfloat16()
    exact = x.float() @ weight.float().T
    for name, contender in contenders.items():
        error = (contender.copies[0][0](x).float() - exact).norm() / exact.norm()
        if not error < 0.2:
            sys.exit(f"{name}: its product is off by {error:.0%}")


def clock(contenders: dict[str, Contender], columns: int, rounds: int) -> dict[tuple[str, int], list[float]]:
    """(contender, M) → seconds, one a round; M = 0: a plain read of the codes."""
    inputs = {M: torch.randn(M, columns).bfloat16() for M in WIDTHS}
    seconds: dict[tuple[str, int], list[float]] = defaultdict(list)
    jobs = [(name, M) for name in contenders for M in (0, *WIDTHS)]
    with torch.inference_mode():
        for r in range(rounds):
            for i, (name, M) in enumerate(jobs if r % 2 == 0 else jobs[::-1]):
                copies = contenders[name].copies
                linear, codes = copies[(r * len(jobs) + i) % len(copies)]
                start = perf_counter()
                linear(inputs[M]) if M else ops.read_checksum(codes)
                seconds[name, M].append(perf_counter() - start)
    return seconds


def table(contenders: dict[str, Contender], seconds: dict[tuple[str, int], list[float]], shape: str) -> Table:
    hardware, threads = environment.describe()["hardware"], torch.get_num_threads()
    made = Table(title=f"{shape}, {hardware}, {threads} threads, {ops.backend()}")
    for heading in ("format", "T(1), ms", "GB/s", "share of a plain read", *(f"T({M})/T(1)" for M in WIDTHS[1:])):
        made.add_column(heading, justify="left" if heading == "format" else "right")
    for name, contender in contenders.items():
        one, codes = seconds[name, 1], contender.copies[0][1]
        read = [contender.nbytes / codes.nbytes * s for s in seconds[name, 0]]  # the scales at the codes' speed
        share = median(r / t for r, t in zip(read, one))
        ratios = (median(b / a for a, b in zip(one, seconds[name, M])) for M in WIDTHS[1:])
        made.add_row(name, f"{1e3 * median(one):.2f}", f"{contender.nbytes / median(one) / 1e9:.1f}", f"{share:.0%}",
                     *(f"{ratio:.2f}" for ratio in ratios))  # fmt: skip
    return made


if __name__ == "__main__":
    main()
