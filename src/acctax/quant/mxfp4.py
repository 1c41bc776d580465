import torch

from acctax.quant import e2m1
from acctax.quant.format import Format, absmax, by_rows
from acctax.quant.registry import register
from acctax.quant.tiles import words_of_nibbles

_BIAS = 127


@register("mxfp4")
class MXFP4(Format):
    """E2M1 in blocks of 32 with a power of two as scale, stored as E8M0: w = v * 2^(s - 127).

    The exponent follows the "even" rule of compressed-tensors: floor(log2 amax) - 2, one more where amax is
    at least 1.75 of its power of two. (Rounding always down, as OCP's text has it, clips more.)
    """

    row_wise = True
    groups = (32,)

    def encode(self, weight, group):
        # amax = mantissa * 2^exponent, mantissa in [.5, 1)
        mantissa, exponent = torch.frexp(absmax(weight, group))
        exponent = exponent - 1 + (mantissa >= 1.75 / 2).int() - 2
        # 1: the smallest scale that is not subnormal in f32; 255 would be NaN
        scales = (exponent + _BIAS).clamp(1, 254).to(torch.uint8)

        def to_e2m1(rows, scales):
            blocks = rows.float().unflatten(1, (-1, group))
            return e2m1.encode((blocks / _decode(scales)[..., None]).flatten(1))

        return by_rows(to_e2m1, weight, scales), scales, None

    def words(self, weight):
        return words_of_nibbles(weight.codes), weight.scales, None

    def unpack(self, codes, scales, global_scale, group, width):
        return (e2m1.decode(codes).unflatten(1, (-1, group)) * _decode(scales)[..., None]).flatten(1)


def _decode(scales):
    return scales.view(torch.float8_e8m0fnu).float()
