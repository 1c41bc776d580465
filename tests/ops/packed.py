"""Random packed weights of every format, and what they stand for: a decoder by the formats' definitions."""

import torch
from torch import Tensor

from acctax.quant.packed import PackedWeight
from acctax.quant.runnable import runnable

E2M1 = torch.tensor([0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6])
NF4 = torch.tensor([
    -1.0, -0.6961928009986877, -0.5250730514526367, -0.39491748809814453,
    -0.28444138169288635, -0.18477343022823334, -0.09105003625154495, 0.0,
    0.07958029955625534, 0.16093020141124725, 0.24611230194568634, 0.33791524171829224,
    0.44070982933044434, 0.5626170039176941, 0.7229568362236023, 1.0,
])  # fmt: skip

FORMATS = ("fp32", "bf16", "fp8", "int8", "int4", "nvfp4", "mxfp4", "nf4", "nvfp4_a8")


def packed(format: str, N: int, K: int, codes: Tensor, scales=None, global_scale=None, group: int = 0) -> PackedWeight:
    return PackedWeight(format, (N, K), codes, scales, global_scale, group)


def linear(x: Tensor, weight: PackedWeight, *arguments, **named) -> Tensor:
    """The product by whatever ops are in charge."""
    return runnable(weight).linear(x, *arguments, **named)


def exact(x: Tensor, weight: PackedWeight) -> Tensor:
    """The float64 product of what the definitions say."""
    if weight.format == "nvfp4_a8":
        spans = x.float().unflatten(1, (-1, 16))
        scales = spans.abs().amax(2, keepdim=True) / 127
        x = ((spans / scales).round() * scales.double()).flatten(1)
    decoded = unpack(weight.format)(weight.codes, weight.scales, weight.global_scale, weight.group, weight.shape[1])
    return x.double() @ decoded.double().T


def random_packed(format: str, N: int, K: int, group: int = 64, seed: int = 0) -> PackedWeight:
    g = torch.Generator().manual_seed(seed)

    def codes(*shape: int) -> Tensor:
        return torch.randint(0, 256, shape, dtype=torch.uint8, generator=g)

    def positive(*shape: int) -> Tensor:
        return torch.rand(shape, generator=g) + 0.1

    match format:
        case "fp32":
            return packed(format, N, K, torch.randn(N, K, generator=g))
        case "bf16":
            return packed(format, N, K, torch.randn(N, K, generator=g).bfloat16())
        case "fp8":
            return packed(format, N, K, torch.randn(N, K, generator=g).to(torch.float8_e4m3fn), positive(N))
        case "int8":
            return packed(format, N, K, codes(N, K).view(torch.int8).clamp(-127, 127), positive(N))
        case "int4":
            return packed(format, N, K, codes(N, K // 2), positive(N, K // group).bfloat16(), None, group)
        case "nvfp4" | "nvfp4_a8":
            scales = (100 * positive(N, K // 16)).to(torch.float8_e4m3fn)
            return packed(format, N, K, codes(N, K // 2), scales, torch.tensor(0.0123), 16)
        case "mxfp4":
            scales = torch.randint(120, 130, (N, K // 32), dtype=torch.uint8, generator=g)
            return packed(format, N, K, codes(N, K // 2), scales, None, 32)
        case _:
            return packed(format, N, K, codes(N * K // 2), positive(-(N * K // -64)), None, 64)


def unpack(format: str):
    """fn(codes, scales, global_scale, group, K) -> f32 [N, K]."""

    def nibbles(codes: Tensor, table: Tensor, high_first: bool = False) -> Tensor:
        pair = (codes >> 4, codes & 15) if high_first else (codes & 15, codes >> 4)
        return table[torch.stack(pair, -1).flatten(-2).long()]

    def fn(codes: Tensor, scales: Tensor | None, global_scale: Tensor | None, group: int, K: int) -> Tensor:
        match format:
            case "fp32" | "bf16":
                return codes.float()
            case "fp8" | "int8":
                return codes.float() * scales[:, None]
            case "int4":
                return nibbles(codes, torch.arange(-8.0, 8)) * scales.float().repeat_interleave(group, -1)
            case "nvfp4" | "nvfp4_a8":
                return nibbles(codes, E2M1) * (scales.float() * global_scale).repeat_interleave(16, -1)
            case "mxfp4":
                power = torch.where(scales == 255, torch.nan, torch.exp2(scales.double() - 127)).float()
                return nibbles(codes, E2M1) * power.repeat_interleave(32, -1)
            case _:
                flat = nibbles(codes, NF4, high_first=True)
                return (flat * scales.repeat_interleave(64)[: flat.numel()]).view(-1, K)

    return fn
