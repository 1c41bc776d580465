from acctax.quant.nvfp4 import NVFP4
from acctax.quant.registry import register

SPAN = 16  # activations under one scale


@register("nvfp4_a8")
class NVFP4A8(NVFP4):
    """NVFP4 weights under activations rounded to int8, for processors that multiply int8 fastest.

    Each 16 activations of a row get a scale amax / 127 of their own. That changes the numbers: a format of its own.
    """

    def activations(self, x):
        """x [M, K] f32 → what the product sees of it; NaN wherever a span is not finite."""
        spans = x.unflatten(1, (-1, SPAN))
        scales = (spans.abs().amax(2, keepdim=True) / 127).clamp_min(1e-30)
        rounded = (spans / scales).round() * scales
        return (rounded + (spans * 0).sum(2, keepdim=True)).flatten(1)
