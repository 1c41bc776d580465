from acctax.quant.format import Format
from acctax.quant.registry import register
from acctax.quant.tiles import whole_words


@register("fp32")
class FP32(Format):
    """32-bit floats as they are."""

    row_wise = True

    def encode(self, weight, group):
        return weight.float(), None, None

    def words(self, weight):
        return whole_words(weight.codes), None, None

    def unpack(self, codes, scales, global_scale, group, width):
        return codes
