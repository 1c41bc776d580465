import torch

from acctax.quant.format import Format
from acctax.quant.registry import register
from acctax.quant.tiles import whole_words


@register("bf16")
class BF16(Format):
    """bfloat16, no scales."""

    row_wise = True

    def encode(self, weight, group):
        return weight.to(torch.bfloat16), None, None

    def words(self, weight):
        return whole_words(weight.codes), None, None

    def unpack(self, codes, scales, global_scale, group, width):
        return codes.float()
