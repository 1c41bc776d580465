"""A weight laid out for kernels, whichever layout it is."""

from dataclasses import dataclass

from torch import Tensor

from acctax import ops


@dataclass(frozen=True, slots=True)
class TiledWeight:
    """A weight [N, K] in the order in which a device's kernels read it: in tiles on a CPU, in panels on a GPU.

    Row scales multiply whole features.
    """

    format: str
    shape: tuple[int, int]
    codes: Tensor  # int32, in tiles [tiles, words, 32]
    scales: Tensor | None  # uint8, in tiles [tiles, spans, 32 · bytes of a scale]
    row_scales: Tensor | None  # f32 [N up to whole tiles or panels]
    group: int

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
        """x [M, K] → [M, N], as `PackedWeight.linear`. A row of the result is the same, bit for bit, for every M."""
        return ops.tiled_linear(  # by position: names cost the dispatcher a microsecond a call
            x, self.codes, self.scales, self.row_scales, self.format, self.group, *self.shape,
            bias, residual, float_out, norm, eps, activation,
        )  # fmt: skip
