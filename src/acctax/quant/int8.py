import torch

from acctax.quant.format import SMALLEST_SCALE, Format, absmax, by_rows
from acctax.quant.registry import register
from acctax.quant.tiles import words_of_bytes


@register("int8")
class Int8(Format):
    """Symmetric 8-bit integers with an f32 scale per output row: w = code * scale, scale = amax / 127."""

    row_wise = True

    def encode(self, weight, group):
        scales = (absmax(weight, weight.size(1)) / 127).clamp_min(SMALLEST_SCALE)  # [N, 1]

        def to_int8(rows, scales):
            return (rows.float() / scales).round().clamp(-127, 127).to(torch.int8)

        return by_rows(to_int8, weight, scales), scales.squeeze(1), None

    def words(self, weight):
        """Sign and magnitude; None for -128, which this format's encoder never makes."""
        if weight.codes.numel() and weight.codes.amin() == -128:
            return None
        sign = (weight.codes < 0).to(torch.uint8) << 7
        return words_of_bytes(weight.codes.abs().view(torch.uint8) | sign), None, weight.scales

    def unpack(self, codes, scales, global_scale, group, width):
        return codes.float() * scales[:, None]
