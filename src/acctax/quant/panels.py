"""Packed weights laid out for the CUDA kernels, once at load: 64 output features side by side, a panel.

A panel is read step by step along K; a step is what 32 lanes take in 16 bytes each, for each of its 4 tiles of 16
features. Lane 4g + t holds the features g and g + 8 of a tile, as the tensor cores take them, and a quarter of a step's
weights along K: t · step / 4 and on, or, for int4, four in each sixteen.

    codes   [panels, steps, 4 tiles, 32 lanes, 16 bytes]     a step is 16, 32 or 64 weights of 16, 8 or 4 bits
    scales  [panels, spans, 8 g, lanes that differ, 4 tiles, 2 features]     spans along K, one or more a step

A word of 32 bits holds weights k .. k + 3 of one feature (8 bits) or of both (4 bits; pair p is k, k + 1 of feature g,
of g + 8, then k + 2, k + 3 of each). Their bits stand where kernels/cuda/formats.cuh finds them with the fewest
operations.
"""

import torch
from torch import Tensor
from torch.nn.functional import pad

from acctax.quant.packed import PackedWeight
from acctax.quant.tiled import TiledWeight

WIDTH = 64
_STEP = {"bf16": 16, "fp8": 32, "int8": 32, "int4": 64, "nvfp4": 64, "mxfp4": 64, "nf4": 64}
FORMATS = tuple(_STEP)  # that CUDA kernels read

# Where the bits of a 4-bit code stand in a word, lowest first: [pair][half], the half being the pair's first or second.
_E2M1_BITS = [[(6, 7, 8, 15)], [(3, 4, 5, 12)], [(0, 1, 2, 9)], [(10, 13, 14, 11)]]
_INT4_BITS = [[tuple(range(4 * p, 4 * p + 4))] for p in range(4)]
for _pair in (*_E2M1_BITS, *_INT4_BITS):
    _pair.append(tuple(place + 16 for place in _pair[0]))
_NF4_BITS = [[tuple(range(4 * i, 4 * i + 4)) for i in (2 * p, 2 * p + 1)] for p in range(4)]


def lay_out(weight: PackedWeight) -> TiledWeight | None:
    """The weight in panels; None where no CUDA kernel reads it: another format, a code or a scale without a value."""
    if weight.format not in _STEP:
        return None
    parts = _PARTS[weight.format](weight)
    if parts is None:
        return None
    codes, scales, row_scales = parts
    if row_scales is not None:
        row_scales = pad(row_scales.float(), (0, -len(row_scales) % WIDTH)).contiguous()
    if scales is not None:
        scales = scales.contiguous().view(torch.uint8)
    return TiledWeight(weight.format, weight.shape, codes.contiguous(), scales, row_scales, weight.group)


def _lanes(codes: Tensor, step: int, filler: int = 0, strided: bool = False) -> Tensor:
    """Codes [N, K] → [panels, steps, tiles, g, t, quads, 2 features, 4]: neighbours in K, as lanes hold them."""
    codes = pad(codes, (0, -codes.shape[1] % step, 0, -len(codes) % WIDTH), value=filler)
    parts = codes.unflatten(1, (-1, step // 16, 4, 4) if strided else (-1, 4, step // 16, 4))
    if strided:
        parts = parts.transpose(2, 3)  # [N, steps, t, quads, 4]
    parts = parts.unflatten(0, (-1, 4, 2, 8))  # [panels, tiles, features, g, steps, t, quads, 4]
    return parts.permute(0, 4, 1, 3, 5, 6, 2, 7)


def _spans(scales: Tensor, lanes: int, per_step: int = 1) -> Tensor:
    """Block scales [N, spans] → [panels, spans / lanes, g, lanes, tiles, features], whole steps of them."""
    scales = pad(scales, (0, -scales.shape[1] % (lanes * per_step), 0, -len(scales) % WIDTH))
    return scales.unflatten(1, (-1, lanes)).unflatten(0, (-1, 4, 2, 8)).permute(0, 4, 3, 5, 1, 2)


def _nibbles(weight: PackedWeight, high_first: bool = False) -> Tensor:
    """uint8 [N, K] of a weight's 4-bit codes."""
    low, high = weight.codes & 15, weight.codes >> 4
    return torch.stack((high, low) if high_first else (low, high), -1).view(weight.shape)


def _word_of_nibbles(quads: Tensor, places: list[list[tuple[int, ...]]]) -> Tensor:
    """[..., 2 features, 4] → int32 [...]: each code's bits at its places."""
    pairs = quads.unflatten(-1, (2, 2)).transpose(-3, -2).flatten(-3, -2).int()  # [..., 4 pairs, 2 halves]
    word = torch.zeros(pairs.shape[:-2], dtype=torch.int32, device=pairs.device)
    for p, halves in enumerate(places):
        for half, bits in enumerate(halves):
            for bit, place in enumerate(bits):
                word |= (pairs[..., p, half] >> bit & 1) << place
    return word


def _word_of_bytes(quads: Tensor) -> Tensor:
    """uint8 [..., 4] → int32 [...]: the first two in the lower bytes of the halves, the others in the upper ones."""
    a, b, c, d = quads.int().unbind(-1)
    return a | c << 8 | b << 16 | d << 24


def _bf16(weight: PackedWeight):
    quads = _lanes(weight.codes, 16)  # [panels, steps, tiles, g, t, 1, features, 4]
    words = quads.squeeze(5).unflatten(-1, (2, 2)).transpose(-3, -2).contiguous()  # [..., pairs, features, 2]
    return words.view(torch.int32), None, None


def _fp8(weight: PackedWeight):
    codes = weight.codes.view(torch.uint8)
    if (codes & 0x7F == 0x7F).any():  # NaN
        return None
    return _word_of_bytes(_lanes(codes, 32)), None, weight.scales


def _int8(weight: PackedWeight):
    """Sign and magnitude; a pair's magnitudes are found at the bottom of the halves, and its signs at their top."""
    if weight.codes.numel() and weight.codes.amin() == -128:
        return None
    codes = weight.codes.int()
    word = _word_of_bytes(_lanes(codes.abs(), 32))
    a, b, c, d = (_lanes((codes < 0).int(), 32)).unbind(-1)
    # rotated right by a byte, bit 7 is the upper half's sign and bit 23 the lower half's
    return word | a << 15 | b << 31 | c << 23 | d << 7, None, weight.scales


def _int4(weight: PackedWeight):
    if weight.group not in (16, 32) and weight.group % 64:
        return None
    words = _word_of_nibbles(_lanes(_nibbles(weight), 64, filler=8, strided=True), _INT4_BITS)
    return words, _spans(weight.scales, 1, max(1, 64 // weight.group)), None


def _nvfp4(weight: PackedWeight):
    """Block scales as 5 bits of exponent and 3 of mantissa, none of them subnormal; rows make up for the range."""
    scales = weight.scales.float()
    if not (scales >= 0).all():
        return None
    codes = _nibbles(weight)
    codes = torch.where((scales == 0).repeat_interleave(16, 1), 0, codes)
    mantissa, exponent = torch.frexp(scales)  # mantissa in [.5, 1)
    fields = (exponent + 9) * 8 + (mantissa * 16 - 8).int()
    words = _word_of_nibbles(_lanes(codes, 64), _E2M1_BITS)
    row_scales = weight.global_scale.expand(weight.shape[0]) * 2.0**8
    return words, _spans(torch.where(scales == 0, 0, fields).to(torch.uint8), 4), row_scales


def _mxfp4(weight: PackedWeight):
    """Exponents relative to the largest of their row: whatever is 2^117 times smaller than that counts as nothing."""
    exponents = weight.scales.int()
    largest = exponents.amax(1, keepdim=True)
    if (exponents == 255).any() or (largest > 246).any():
        return None
    relative = (exponents - largest + 245).clamp_min(1).to(torch.uint8)
    words = _word_of_nibbles(_lanes(_nibbles(weight), 64), _E2M1_BITS)
    return words, _spans(relative, 2), torch.exp2(largest.squeeze(1).float() - 127 + 8)


def _nf4(weight: PackedWeight):
    N, K = weight.shape
    if K % 64:
        return None  # blocks cross rows
    codes = _nibbles(weight, high_first=True)
    return _word_of_nibbles(_lanes(codes, 64), _NF4_BITS), _spans(weight.scales.view(N, K // 64), 1), None


_PARTS = {"bf16": _bf16, "fp8": _fp8, "int8": _int8, "int4": _int4, "nvfp4": _nvfp4, "mxfp4": _mxfp4, "nf4": _nf4}
