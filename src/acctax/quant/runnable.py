"""Where a stored weight is to be multiplied decides its layout."""

import torch

from acctax import ops
from acctax.errors import ConfigError
from acctax.quant.packed import PackedWeight
from acctax.quant.panels import FORMATS, lay_out
from acctax.quant.tiled import TiledWeight
from acctax.quant.tiles import tile


def runnable(weight: PackedWeight, device: torch.device | str = "cpu") -> TiledWeight | PackedWeight:
    """The weight on the device, as the ops in charge there read it; as it is stored where only the reference does.

    A GPU lays it out itself. Raises ConfigError for a weight that no CUDA kernel reads: the reference would be slow
    beyond use beside kernels.
    """
    device = torch.device(device)
    if device.type != "cpu":
        weight = weight.to(device)
    if ops.backend(device.type) == "reference":
        return weight
    if device.type == "cpu":
        return tile(weight) or weight
    laid_out = lay_out(weight)
    if laid_out is None:
        groups = f" in groups of {weight.group}" if weight.group else ""
        raise ConfigError("format", weight.format, f"no CUDA kernel reads it at {weight.shape[0]} x {weight.shape[1]}"
                          f"{groups}; kernels read {', '.join(FORMATS)}")  # fmt: skip
    return laid_out
