"""Tiles hold what the packed weight holds, each weight where the layout's drawing puts it."""

import pytest
import torch

from acctax import quant
from acctax.quant.packed import PackedWeight
from acctax.quant.tiles import tile

N, K = 64, 192
BITS = {"fp32": 32, "bf16": 16, "fp8": 8, "int8": 8, "int4": 4, "nvfp4": 4, "mxfp4": 4, "nf4": 4, "nvfp4_a8": 4}
SPAN = {"int4": 64, "nvfp4": 16, "nvfp4_a8": 16, "mxfp4": 32, "nf4": 64}  # of weights under a block scale
POSITION = {4: (0, 4, 1, 5, 2, 6, 3, 7), 8: (0, 2, 1, 3), 16: (0, 1), 32: (0,)}  # of a word's weights, lowest first


def packed(format: str) -> PackedWeight:
    generator = torch.Generator().manual_seed(0)
    return quant.get(format).pack(torch.randn(N, K, generator=generator), 64 if format == "int4" else None)


def code(weight: PackedWeight, n: int, k: int) -> int:
    """The stored bits of one weight, by its format's own definition."""
    bits = BITS[weight.format]
    if bits == 4:
        byte = weight.codes.flatten()[(n * K + k) // 2].item()
        return byte >> 4 if (k % 2 == 1) != (weight.format == "nf4") else byte & 15
    if weight.format == "int8":
        value = weight.codes[n, k].item()
        return abs(value) | 128 * (value < 0)
    return int(weight.codes.view({8: torch.uint8, 16: torch.uint16, 32: torch.int32}[bits])[n, k]) & (1 << bits) - 1


@pytest.mark.parametrize("format", BITS)
def test_every_weight_is_where_the_drawing_puts_it(format):
    weight, bits = packed(format), BITS[format]
    tiled, per_word = tile(weight), 32 // bits
    for n in (0, 7, 16, 63):
        for k in range(K):
            word = tiled.codes[n // 32, k // per_word, n % 32].item() & 0xFFFFFFFF
            assert word >> bits * POSITION[bits][k % per_word] & (1 << bits) - 1 == code(weight, n, k)


@pytest.mark.parametrize("format", SPAN)
def test_every_block_scale_stands_beside_those_of_its_tile(format):
    weight = packed(format)
    stored = weight.scales.view(N, -1)
    scales = tile(weight).scales.view(stored.dtype)  # [tiles, spans, 32]
    assert torch.equal(scales.transpose(1, 2).reshape(N, -1).view(torch.uint8), stored.view(torch.uint8))
    assert scales.shape[1] == K // SPAN[format]


@pytest.mark.parametrize("format", BITS)
def test_whole_tiles_take_not_a_byte_more(format):
    weight = packed(format)
    tiled = tile(weight)
    read = tiled.codes.nbytes + (tiled.scales.nbytes if tiled.scales is not None else 0)
    if tiled.row_scales is not None and format not in ("nvfp4", "nvfp4_a8"):
        read += tiled.row_scales.nbytes
    if format in ("nvfp4", "nvfp4_a8"):
        read += 4  # the one global scale, repeated for each row
    assert read == weight.nbytes


def test_incomplete_tiles_and_words_are_filled_with_zeros():
    tiled = tile(quant.get("int8").pack(torch.ones(33, 5)))
    assert tiled.codes.shape == (2, 2, 32) and tiled.row_scales.shape == (64,)
    assert tiled.codes[1, :, 1:].eq(0).all() and tiled.codes[:, 1].ne(0).sum() == 33
    assert tiled.codes[0, 1, 0] == 127  # one weight in the second word


@pytest.mark.parametrize(
    "weight",
    [
        PackedWeight("int8", (1, 4), torch.tensor([[1, 2, 3, -128]], dtype=torch.int8), torch.ones(1), None, 0),
        PackedWeight("nf4", (2, 32), torch.zeros(32, dtype=torch.uint8), torch.ones(1), None, 64),
        PackedWeight("int4", (1, 8), torch.zeros(1, 4, dtype=torch.uint8), torch.ones(1, 2).bfloat16(), None, 4),
    ],
    ids=["-128", "a block of two rows", "a group of 4"],
)
def test_what_no_kernel_reads_is_left_as_stored(weight):
    assert tile(weight) is None
