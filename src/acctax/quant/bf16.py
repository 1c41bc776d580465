import torch

from acctax.quant.format import Format
from acctax.quant.registry import register


@register("bf16")
class BF16(Format):
    """bfloat16, no scales."""

    row_wise = True

    def encode(self, weight, group):
        return weight.to(torch.bfloat16), None, None

    def unpack(self, codes, scales, global_scale, group, width):
        return codes.float()
