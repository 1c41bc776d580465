import torch

from acctax.errors import ConfigError
from acctax.quant import nibbles
from acctax.quant.format import Format, absmax, by_rows
from acctax.quant.registry import register
from acctax.quant.tiles import words_of_nibbles

# Quantiles of a Gaussian scaled to [-1, 1] (QLoRA, appendix E), as bitsandbytes stores them.
VALUES = torch.tensor(
    [
        *(-1.0, -0.6961928009986877, -0.5250730514526367, -0.39491748809814453),
        *(-0.28444138169288635, -0.18477343022823334, -0.09105003625154495, 0.0),
        *(0.07958029955625534, 0.16093020141124725, 0.24611230194568634, 0.33791524171829224),
        *(0.44070982933044434, 0.5626170039176941, 0.7229568362236023, 1.0),
    ]
)
_MIDPOINTS = (VALUES[1:] + VALUES[:-1]) / 2


@register("nf4")
class NF4(Format):
    """bitsandbytes' NF4: w = value * absmax in blocks of 64 over the FLATTENED tensor.

    The even index is in the HIGH nibble. The last block may be short; the number of weights must be even.
    """

    groups = (64,)

    def check(self, shape, group=None, module="weight"):
        if shape[0] * shape[1] % 2:
            raise ConfigError("format", self.name, f"needs an even number of weights, {module} has {shape}")
        return super().check((1, 64), group, module)  # a block may cross rows: any width divides

    def stacks(self, width):
        return width % 64 == 0  # then no block crosses rows

    def encode(self, weight, group):
        blocks = _blocks(weight, group)
        scales = absmax(blocks, group)  # [blocks, 1]

        def to_nf4(blocks, scales):
            # times the reciprocal, as bitsandbytes rounds; the bound keeps a block of zeros at zero
            unit = blocks.float() * (1.0 / scales.clamp_min(1e-38))
            codes = torch.bucketize(unit, _MIDPOINTS.to(unit.device), out_int32=True)
            return nibbles.pack(codes.unflatten(1, (-1, 2)).flip(2).flatten(1))

        codes = by_rows(to_nf4, blocks, scales).flatten()
        return codes[: weight.numel() // 2].contiguous(), scales.squeeze(1), None

    def words(self, weight):
        N, K = weight.shape
        if K % 64:
            return None
        return words_of_nibbles(weight.codes.view(N, K // 2), high_first=True), weight.scales.view(N, K // 64), None

    def unpack(self, codes, scales, global_scale, group, width):
        low_first = nibbles.look_up(codes, VALUES)  # [N * K]
        values = low_first.unflatten(0, (-1, 2)).flip(1).flatten()
        return (_blocks(values, group) * scales[:, None]).flatten()[: values.numel()].view(-1, width)


def _blocks(values, group):
    """Flatten and fill up with zeros: any shape -> [ceil(numel / group), group]."""
    flat = values.flatten()
    return torch.nn.functional.pad(flat, (0, -flat.numel() % group)).view(-1, group)
