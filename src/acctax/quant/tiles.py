"""Packed weights laid out for the kernels, once at load: 32 output features side by side, a tile.

Along K, a word of 32 bits holds the next 1, 2, 4 or 8 weights of a feature (32, 16, 8 or 4 bits each), and the words
of a tile's features alternate, so that a register of 16 lanes loads a word of each of 16 features, and a matrix
is read from its first byte to its last:

    codes   [tiles, words, 32]   word 0 of features 0..31 | word 1 of features 0..31 | ...
    scales  [tiles, spans, 32]   likewise, where a span of weights along K shares a block scale

Within a word the even weights stand before the odd ones in each step of 16 bits, so that a shift brings the pair
k, k + 1 into the halves of the word:

    4 bits   k  k+2 k+4 k+6 | k+1 k+3 k+5 k+7        8 bits   k  k+2 | k+1 k+3        (lowest bits first)

N is filled up to whole tiles, K to whole words, with zeros; not a byte is added where they are whole.
"""

import torch
from torch import Tensor
from torch.nn.functional import pad

from acctax import memory
from acctax.quant import registry
from acctax.quant.packed import PackedWeight
from acctax.quant.tiled import TiledWeight

WIDTH = 32


def tile(weight: PackedWeight) -> TiledWeight | None:
    """The weight in tiles; None where no kernel reads its format, or its blocks cross rows."""
    parts = registry.get(weight.format).words(weight)
    if parts is None:
        return None
    words, scales, row_scales = parts
    if scales is not None:
        scales = _interleaved(scales).view(torch.uint8)
    if row_scales is not None:
        row_scales = pad(row_scales, (0, -len(row_scales) % WIDTH))
    return TiledWeight(weight.format, weight.shape, _interleaved(words), scales, row_scales, weight.group)


def whole_words(codes: Tensor) -> Tensor:
    """Codes of 16 or 32 bits, [N, K] → int32 [N, words]."""
    return pad(codes, (0, -codes.shape[1] % (4 // codes.itemsize))).contiguous().view(torch.int32)


def words_of_bytes(codes: Tensor) -> Tensor:
    """Codes of 8 bits, uint8 [N, K] → int32 [N, words]: the middle two bytes of each change places."""
    word = pad(codes, (0, -codes.shape[1] % 4)).contiguous().view(torch.int32)
    return (word & -0xFFFF01) | (word >> 8 & 0xFF00) | (word << 8 & 0xFF0000)


def words_of_nibbles(codes: Tensor, high_first: bool = False) -> Tensor:
    """Two codes of 4 bits a byte, uint8 [N, K / 2], K a multiple of 8 → int32 [N, words]."""
    word = codes.contiguous().view(torch.int32)
    low, high = _gathered(word), _gathered(word >> 4)
    return (high | low << 16) if high_first else (low | high << 16)


def _gathered(word: Tensor) -> Tensor:
    """The low nibbles of a word's 4 bytes in its lower 16 bits."""
    word = word & 0x0F0F0F0F
    word = (word | word >> 4) & 0x00FF00FF
    return (word | word >> 8) & 0xFFFF


def _interleaved(rows: Tensor) -> Tensor:
    """[N, n] → [tiles, n, 32]."""
    tiles = pad(rows, (0, 0, 0, -len(rows) % WIDTH)).unflatten(0, (-1, WIDTH)).transpose(1, 2)
    return memory.empty(tiles.shape, tiles.dtype).copy_(tiles)
