"""The skinny linear, format by format: share of the read bandwidth at M = 1, and what more rows cost.

    python benchmarks/kernels.py [--rounds 15] [--shape 4096x4096] [--formats bf16,int8,...]

All figures come from the same interleaved rounds, the bandwidth among them. Several copies of each matrix take turns,
so that no pass finds its weights in a cache. Peers (torch, bitsandbytes) stand beside the formats they serve; one
that is absent is named.
"""

import argparse
from collections import defaultdict
from collections.abc import Callable
from statistics import median
from time import perf_counter

import torch
from rich.console import Console
from rich.table import Table
from torch import Tensor

from acctax import ops, quant
from acctax.quant.tiles import tile
from acctax.measure.bandwidth import read_bandwidth

FORMATS = ("bf16", "fp8", "int8", "int4", "nvfp4", "mxfp4", "nf4", "nvfp4_a8")
WIDTHS = (1, 2, 5, 8, 16)
CACHE_BYTES = 1 << 27  # copies of a matrix cover at least this much

Linear = Callable[[Tensor], Tensor]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--shape", default="4096x4096", help="output x input features")
    parser.add_argument("--formats", default=",".join(FORMATS))
    arguments = parser.parse_args()
    ops.load()
    rows, columns = map(int, arguments.shape.split("x"))
    weight = torch.randn(rows, columns).mul_(0.02).bfloat16()
    contenders = {name: ours(weight, name) for name in arguments.formats.split(",")} | peers(weight)
    seconds, bandwidth = clock(contenders, columns, arguments.rounds)
    Console(width=110).print(table(contenders, seconds, median(bandwidth), arguments.shape))


def ours(weight: Tensor, name: str) -> tuple[int, list[Linear]]:
    """Stored bytes of a matrix, and copies of it to take in turn."""
    packed = quant.get(name).pack(weight)
    return packed.nbytes, [tile(packed).linear for _ in range(1 + CACHE_BYTES // packed.nbytes)]


def peers(weight: Tensor) -> dict[str, tuple[int, list[Linear]]]:
    found: dict[str, tuple[int, list[Linear]]] = {}
    for name, peer in (("torch bf16", torch_bf16), ("torch int8", torch_int8), ("torch int4", torch_int4),
                       ("bitsandbytes nf4", bitsandbytes_nf4)):  # fmt: skip
        try:
            found[name] = peer(weight)
        except (ImportError, AttributeError, RuntimeError) as error:
            print(f"{name}: absent ({str(error).splitlines()[0]})")
    return found


def torch_bf16(weight: Tensor) -> tuple[int, list[Linear]]:
    copies = [weight.clone() for _ in range(1 + CACHE_BYTES // weight.nbytes)]
    return weight.nbytes, [lambda x, w=w: torch.nn.functional.linear(x, w) for w in copies]


def torch_int8(weight: Tensor) -> tuple[int, list[Linear]]:
    scale = weight.float().abs().amax(1) / 127
    codes = (weight.float() / scale[:, None]).round().to(torch.int8)
    copies = [codes.clone() for _ in range(1 + CACHE_BYTES // codes.nbytes)]
    return codes.nbytes, [lambda x, w=w: torch._weight_int8pack_mm(x, w, scale.bfloat16()) for w in copies]


def torch_int4(weight: Tensor) -> tuple[int, list[Linear]]:
    rows, columns = weight.shape
    codes = torch.randint(0, 16, (rows, columns), dtype=torch.int32)
    scales = torch.rand(columns // 128, rows, 2).bfloat16()
    packed = torch._convert_weight_to_int4pack_for_cpu(codes, 1)
    copies = [packed.clone() for _ in range(1 + CACHE_BYTES // packed.nbytes)]
    nbytes = packed.nbytes + scales.nbytes
    return nbytes, [lambda x, w=w: torch._weight_int4pack_mm_for_cpu(x, w, 128, scales) for w in copies]


def bitsandbytes_nf4(weight: Tensor) -> tuple[int, list[Linear]]:
    from bitsandbytes import functional

    codes, state = functional.quantize_4bit(weight, quant_type="nf4")
    copies = [codes.clone() for _ in range(1 + CACHE_BYTES // codes.nbytes)]

    def linear(x: Tensor, w: Tensor) -> Tensor:
        return torch.cat([functional.gemv_4bit(row[None], w.t(), state=state) for row in x])

    linear(torch.zeros(1, weight.shape[1]).bfloat16(), copies[0])
    return codes.nbytes + state.absmax.nbytes, [lambda x, w=w: linear(x, w) for w in copies]


def clock(contenders, columns: int, rounds: int) -> tuple[dict[tuple[str, int], list[float]], list[float]]:
    """(contender, M) → seconds, one a round, and the read bandwidth of each round."""
    inputs = {M: torch.randn(M, columns).bfloat16() for M in WIDTHS}
    seconds: dict[tuple[str, int], list[float]] = defaultdict(list)
    bandwidth = []
    with torch.inference_mode():
        for r in range(rounds):
            bandwidth.append(read_bandwidth())
            jobs = [(name, M) for name in contenders for M in WIDTHS]
            for i, (name, M) in enumerate(jobs if r % 2 == 0 else jobs[::-1]):
                copies = contenders[name][1]
                linear = copies[(r * len(WIDTHS) + i) % len(copies)]
                start = perf_counter()
                linear(inputs[M])
                seconds[name, M].append(perf_counter() - start)
    return seconds, bandwidth


def table(contenders, seconds, bandwidth: float, shape: str) -> Table:
    made = Table(title=f"{shape}, {ops.backend()}, {torch.get_num_threads()} threads, read {bandwidth / 1e9:.1f} GB/s")
    for heading in ("format", "T(1), ms", "GB/s", "share", *(f"T({M})/T(1)" for M in WIDTHS[1:])):
        made.add_column(heading, justify="left" if heading == "format" else "right")
    for name, (nbytes, _) in contenders.items():
        one = median(seconds[name, 1])
        ratios = (median(b / a for a, b in zip(seconds[name, 1], seconds[name, M])) for M in WIDTHS[1:])
        made.add_row(name, f"{1e3 * one:.2f}", f"{nbytes / one / 1e9:.1f}", f"{nbytes / one / bandwidth:.0%}",
                     *(f"{ratio:.2f}" for ratio in ratios))  # fmt: skip
    return made


if __name__ == "__main__":
    main()
