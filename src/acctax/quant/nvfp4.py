import torch

from acctax.quant import e2m1
from acctax.quant.format import SMALLEST_SCALE, Format, absmax, by_rows
from acctax.quant.registry import register
from acctax.quant.tiles import words_of_nibbles

_E4M3_LARGEST = 448.0
_E4M3_SMALLEST = 2.0**-9


@register("nvfp4")
class NVFP4(Format):
    """E2M1 in blocks of 16 with two levels of scales: w = v * (s * g), multiplied in this order.

    g = amax(W) / (6 * 448) is f32 and lifts the block scales s = amax(block) / (6 * g) into E4M3's range.
    A block whose scale would round to zero gets the smallest there is. The codes suit the scales as stored.
    """

    row_wise = True
    groups = (16,)

    def encode(self, weight, group):
        amax = absmax(weight, group)  # [N, K / 16]
        global_scale = (amax.amax() / (e2m1.LARGEST * _E4M3_LARGEST)).clamp_min(SMALLEST_SCALE)
        scales = (amax / (e2m1.LARGEST * global_scale)).clamp(_E4M3_SMALLEST, _E4M3_LARGEST)
        scales = scales.to(torch.float8_e4m3fn)

        def to_e2m1(rows, scales):
            blocks = rows.float().unflatten(1, (-1, group))
            return e2m1.encode((blocks / (scales.float() * global_scale)[..., None]).flatten(1))

        return by_rows(to_e2m1, weight, scales), scales, global_scale

    def words(self, weight):
        row_scales = weight.global_scale.expand(weight.shape[0])
        return words_of_nibbles(weight.codes), weight.scales.view(torch.uint8), row_scales

    def unpack(self, codes, scales, global_scale, group, width):
        block_scales = scales.float() * global_scale.reshape(-1, 1)  # one, or one a row
        return (e2m1.decode(codes).unflatten(1, (-1, group)) * block_scales[..., None]).flatten(1)
