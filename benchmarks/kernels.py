"""The skinny linear, format by format: share of the read bandwidth at M = 1, and what more rows cost.

    python benchmarks/kernels.py [--rounds 15] [--shape 4096x4096] [--formats bf16,...] [--threads 2] [--device cuda]
                                 [--json FILE]

All figures come from the same interleaved rounds. Several copies of each matrix take turns, so that no pass finds its
weights in a cache, and the read bandwidth is that of a plain sum over these very copies: on a virtual machine it
differs from one piece of memory to the next. On a GPU, the device if there is one, a round is a graph that goes through
all copies, and the bandwidth that of a copy of gigabytes, both ways counted. Peers (torch, bitsandbytes) stand beside
the formats they serve; one that is absent is named.
"""

import sys

sys.path.pop(0)  # this folder: from it, this file would be taken for the package `kernels` that peers import

import argparse  # noqa: E402
import json
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from itertools import cycle
from pathlib import Path
from statistics import median
from time import perf_counter

import torch
from rich.console import Console
from rich.table import Table
from torch import Tensor

from acctax import environment, memory, ops, quant
from acctax.errors import ConfigError
from acctax.measure.bandwidth import read_bandwidth
from acctax.quant.runnable import runnable
from acctax.replayed import Recorder
from acctax.replayed import seconds as between

FORMATS = ("bf16", "fp8", "int8", "int4", "nvfp4", "mxfp4", "nf4", "nvfp4_a8")
WIDTHS = (1, 2, 5, 8, 16)
CACHE_BYTES = 1 << 28  # copies of a matrix cover at least this much

Linear = Callable[[Tensor], Tensor]


@dataclass
class Contender:
    nbytes: int  # stored: codes and scales
    copies: list[tuple[Linear, Tensor]]  # a product, and the codes that it reads


def copies_of(codes: Tensor, nbytes: int, linear: Callable[[Tensor], Linear]) -> Contender:
    """As many copies of the codes as a cache cannot hold, each with its product."""
    empty = torch.empty_like if codes.is_cuda else lambda codes: memory.empty(codes.shape, codes.dtype)
    copies = [empty(codes).copy_(codes) for _ in range(1 + CACHE_BYTES // codes.nbytes)]
    return Contender(nbytes, [(linear(copy), copy.view(torch.uint8).flatten()) for copy in copies])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--shape", default="4096x4096", help="output x input features")
    parser.add_argument("--formats", default=",".join(FORMATS))
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--json", type=Path, metavar="FILE", help="the table's figures go here too")
    arguments = parser.parse_args()
    if arguments.device == "cuda" and not torch.cuda.is_available():
        sys.exit("there is no GPU here; --device cpu clocks the CPU's kernels")
    torch.set_num_threads(arguments.threads)
    (ops.load_cuda if arguments.device == "cuda" else ops.load)()
    shape = [int(size) for size in arguments.shape.split("x")]
    weight = torch.randn(shape, device=arguments.device).mul_(0.02).bfloat16()
    makers = {name: partial(ours, name=name) for name in arguments.formats.split(",")}
    contenders = correct(present(weight, makers | PEERS), weight)
    seconds = clock(contenders, weight, arguments.rounds)
    rows = figures(contenders, seconds)
    where = (torch.cuda.get_device_name() if arguments.device == "cuda"
             else f"{environment.describe()['hardware']}, {torch.get_num_threads()} threads")  # fmt: skip
    run = {"shape": arguments.shape, "hardware": where, "kernels": ops.backend(arguments.device)}
    Console(width=110).print(table(rows, ", ".join(run.values())))
    if arguments.json:
        arguments.json.write_text(json.dumps(run | {"rows": rows}, indent=1))


def present(weight: Tensor, makers: dict[str, Callable[[Tensor], Contender]]) -> dict[str, Contender]:
    """Those that make a product on this device."""
    found = {}
    for name, make in makers.items():
        try:
            contender = make(weight)
            for M in WIDTHS:
                contender.copies[0][0](weight[:M])
            found[name] = contender
        except (ImportError, AttributeError, RuntimeError, ConfigError) as error:
            print(f"{name}: absent ({str(error).splitlines()[0]})")
    return found


def ours(weight: Tensor, name: str) -> Contender:
    packed = quant.get(name).pack(weight)
    laid_out = runnable(packed, weight.device)

    def linear(codes: Tensor) -> Linear:
        scales = laid_out.scales
        if codes.is_cuda and scales is not None:
            scales = scales.clone()  # copies that share them would find them in the cache
        return replace(laid_out, codes=codes, scales=scales).linear

    return copies_of(laid_out.codes, packed.nbytes, linear)


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
    if weight.is_cuda:
        pairs = (codes[:, ::2] << 4 | codes[:, 1::2]).to(torch.uint8)
        packed, product = torch._convert_weight_to_int4pack(pairs, 8), torch._weight_int4pack_mm
    else:
        packed, product = torch._convert_weight_to_int4pack_for_cpu(codes, 1), torch._weight_int4pack_mm_for_cpu
    return copies_of(packed, packed.nbytes + scales.nbytes, lambda w: lambda x: product(x, w, 128, scales))


def bitsandbytes_nf4(weight: Tensor) -> Contender:
    import bitsandbytes
    from bitsandbytes import functional

    codes, state = functional.quantize_4bit(weight, quant_type="nf4")
    if not weight.is_cuda:
        codes, state = functional._convert_weight_packed_for_cpu(codes, state)  # as its Linear4bit does for inference
    nbytes = codes.nbytes + weight.numel() // 64 * 4

    def product(w: Tensor) -> Linear:
        return lambda x: bitsandbytes.matmul_4bit(x, w.t() if w.is_cuda else w, quant_state=state)

    return copies_of(codes, nbytes, product)


PEERS = {
    "torch bf16": torch_bf16,
    "torch int8": torch_int8,
    "torch int4": torch_int4,
    "bitsandbytes nf4": bitsandbytes_nf4,
}


def correct(contenders: dict[str, Contender], weight: Tensor) -> dict[str, Contender]:
    """Those that compute the product, as well as their bits allow: all but peers must."""
    x = torch.randn(5, weight.shape[1], device=weight.device).bfloat16()
    exact = x.float() @ weight.float().T
    found = {}
    for name, contender in contenders.items():
        error = (contender.copies[0][0](x).float() - exact).norm() / exact.norm()
        if error < 0.2:
            found[name] = contender
        elif name in PEERS:
            print(f"{name}: left out (its product is off by {error:.0%})")
        else:
            sys.exit(f"{name}: its product is off by {error:.0%}")
    return found


def clock(contenders: dict[str, Contender], weight: Tensor, rounds: int) -> dict[tuple[str, int], list[float]]:
    """(contender, M) → seconds, one a round; M = 0: a plain read of the codes. Drops a peer that no graph holds."""
    inputs = {M: torch.randn(M, weight.shape[1], device=weight.device).bfloat16() for M in WIDTHS}
    seconds: dict[tuple[str, int], list[float]] = defaultdict(list)
    with torch.inference_mode():
        watches = {}
        for name, contender in list(contenders.items()):
            try:
                watches |= watch_gpu(name, contender, inputs) if weight.is_cuda else watch_cpu(name, contender, inputs)
            except RuntimeError as error:
                if name not in PEERS:
                    raise
                print(f"{name}: left out (no graph of it: {str(error).splitlines()[0]})")
                del contenders[name]
        for r in range(rounds):
            for job in list(watches) if r % 2 == 0 else reversed(watches):
                seconds[job].append(watches[job]())
            if weight.is_cuda:
                bandwidth = read_bandwidth(weight.device)
                for name, contender in contenders.items():
                    seconds[name, 0].append(contender.copies[0][1].nbytes / bandwidth)
    return seconds


Watches = dict[tuple[str, int], Callable[[], float]]


def watch_cpu(name: str, contender: Contender, inputs: dict[int, Tensor]) -> Watches:
    """(name, M) → seconds that the next copy takes; M = 0: to read it."""
    turns = cycle(contender.copies)  # of all widths: no two jobs in a row read the same copy

    def measure(x: Tensor | None) -> float:
        linear, codes = next(turns)
        start = perf_counter()
        ops.read_checksum(codes) if x is None else linear(x)
        return perf_counter() - start

    return {(name, M): partial(measure, inputs.get(M)) for M in (0, *WIDTHS)}


def watch_gpu(name: str, contender: Contender, inputs: dict[int, Tensor]) -> Watches:
    """(name, M) → seconds that one of the copies takes, from a graph of all."""
    recorder = Recorder(inputs[1].device)

    def watch(x: Tensor) -> Callable[[], float]:
        replay = recorder.record(lambda: [linear(x) for linear, _ in contender.copies])

        def measure() -> float:
            start = recorder.mark()
            replay()
            end = recorder.mark()
            recorder.wait()
            return between(start, end) / len(contender.copies)

        return measure

    return {(name, M): watch(x) for M, x in inputs.items()}


def figures(contenders: dict[str, Contender], seconds: dict[tuple[str, int], list[float]]) -> list[dict]:
    """A row of the table for each contender; ratios: M → T(M)/T(1)."""
    rows = []
    for name, contender in contenders.items():
        one, codes = seconds[name, 1], contender.copies[0][1]
        read = [contender.nbytes / codes.nbytes * s for s in seconds[name, 0]]  # the scales at the codes' speed
        rows.append({
            "format": name,
            "us": 1e6 * median(one),
            "GBs": contender.nbytes / median(one) / 1e9,
            "share": median(r / t for r, t in zip(read, one)),
            "ratios": {M: median(b / a for a, b in zip(one, seconds[name, M])) for M in WIDTHS[1:]},
        })  # fmt: skip
    return rows


def table(rows: list[dict], title: str) -> Table:
    made = Table(title=title)
    for heading in ("format", "T(1), µs", "GB/s", "share of a plain read", *(f"T({M})/T(1)" for M in WIDTHS[1:])):
        made.add_column(heading, justify="left" if heading == "format" else "right")
    for row in rows:
        made.add_row(row["format"], f"{row['us']:.1f}", f"{row['GBs']:.1f}", f"{row['share']:.0%}",
                     *(f"{ratio:.2f}" for ratio in row["ratios"].values()))  # fmt: skip
    return made


if __name__ == "__main__":
    main()
