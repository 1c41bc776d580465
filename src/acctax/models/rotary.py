"""Tables of the rotary embedding."""

import torch
from torch import Tensor

from acctax.models.config import Rotary


def tables(rotary: Rotary, length: int, device: torch.device | str = "cpu") -> tuple[Tensor, Tensor]:
    """cos, sin [length, head_dim / 2] in float32."""
    angles = torch.outer(torch.arange(length, dtype=torch.float32), torch.tensor(rotary.inv_freq, dtype=torch.float32))
    return (angles.cos() * rotary.scale).to(device), (angles.sin() * rotary.scale).to(device)
