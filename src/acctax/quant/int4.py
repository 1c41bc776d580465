import torch

from acctax.quant import nibbles
from acctax.quant.format import SMALLEST_SCALE, Format, absmax, by_rows
from acctax.quant.registry import register
from acctax.quant.tiles import words_of_nibbles


@register("int4")
class Int4(Format):
    """Symmetric 4-bit integers in groups along the row: w = (code - 8) * scale, scale = bf16(amax / 7.5).

    The codes are chosen for the scale as stored, after its rounding to bf16. amax / 7.5 spends the whole
    range -8..7 and clips half a step at most: a smaller error than amax / 7 has.
    """

    row_wise = True
    groups = (128, 64, 32, 16)

    def encode(self, weight, group):
        scales = (absmax(weight, group) / 7.5).clamp_min(SMALLEST_SCALE).to(torch.bfloat16)  # [N, K / group]

        def to_int4(rows, scales):
            steps = rows.float().unflatten(1, (-1, group)) / scales[..., None].float()
            return nibbles.pack((steps.round().clamp(-8, 7) + 8).flatten(1))

        return by_rows(to_int4, weight, scales), scales, None

    def words(self, weight):
        if weight.group % 8:
            return None
        return words_of_nibbles(weight.codes), weight.scales, None

    def unpack(self, codes, scales, global_scale, group, width):
        steps = nibbles.look_up(codes, torch.arange(-8.0, 8.0))
        return (steps.unflatten(1, (-1, group)) * scales[..., None].float()).flatten(1)
