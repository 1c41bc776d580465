"""A weight matrix as it is stored: packed codes and their scales."""

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from acctax import ops


@dataclass(frozen=True, slots=True)
class PackedWeight:
    """A weight [N, K] in one format; `group` weights share a scale, 0: a whole row does, or there is none."""

    format: str
    shape: tuple[int, int]
    codes: Tensor
    scales: Tensor | None
    global_scale: Tensor | None
    group: int

    @property
    def nbytes(self) -> int:
        """Stored bytes, scales included."""
        return sum(part.nbytes for part in (self.codes, self.scales, self.global_scale) if part is not None)

    def to(self, device: torch.device | str) -> "PackedWeight":
        """The same on a device."""
        parts = {name: getattr(self, name) for name in ("codes", "scales", "global_scale")}
        return replace(self, **{name: part.to(device) for name, part in parts.items() if part is not None})

    def unpack(self) -> Tensor:
        """The values the codes stand for, f32 [N, K]."""
        return ops.unpack(self.codes, self.scales, self.global_scale, self.format, self.group, self.shape[1])

    def linear(
        self,
        x: Tensor,
        bias: Tensor | None = None,
        residual: Tensor | None = None,
        float_out: bool = False,
        norm: Tensor | None = None,
        eps: float = 0.0,
        activation: str = "",
    ) -> Tensor:
        """x [M, K] -> x @ W.T + bias + residual, [M, N], straight from the packed bytes; x may be normed or gated.

        The arguments are those of `ops.reference.linear`.
        """
        return ops.linear(
            x, self.codes, self.scales, self.global_scale, self.format, self.group,
            bias, residual, float_out, norm, eps, activation,
        )  # fmt: skip
