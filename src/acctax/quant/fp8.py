import torch

from acctax.quant.format import SMALLEST_SCALE, Format, absmax, by_rows
from acctax.quant.registry import register
from acctax.quant.tiles import words_of_bytes

LARGEST = 448.0


@register("fp8")
class FP8(Format):
    """E4M3 with an f32 scale per output row: w = code * scale, scale = amax / 448."""

    row_wise = True

    def encode(self, weight, group):
        scales = (absmax(weight, weight.size(1)) / LARGEST).clamp_min(SMALLEST_SCALE)  # [N, 1]

        def to_e4m3(rows, scales):
            # clamped first: a cast beyond 448 gives NaN in older torch
            return (rows.float() / scales).clamp(-LARGEST, LARGEST).to(torch.float8_e4m3fn)

        return by_rows(to_e4m3, weight, scales), scales.squeeze(1), None

    def words(self, weight):
        return words_of_bytes(weight.codes.view(torch.uint8)), None, weight.scales

    def unpack(self, codes, scales, global_scale, group, width):
        return codes.float() * scales[:, None]
