"""What every weight format has in common."""

from collections.abc import Callable

import torch
from torch import Tensor

from acctax.errors import ConfigError
from acctax.quant.packed import PackedWeight

# No scale is smaller, so that a row or block of zeros divides by something; far from f32's subnormals.
SMALLEST_SCALE = 2.0**-100

_CHUNK = 1 << 22  # weights encoded at a time: bounds the memory of the intermediates


class Format:
    """One way to store a weight matrix. A subclass gives `encode` and `unpack`."""

    name: str  # set by @register
    row_wise: bool = False  # the first dimension of codes and scales is the weight's: rows can be stacked
    groups: tuple[int, ...] = ()  # how many weights may share a scale, the preferred first; (): a row or none

    def check(self, shape: tuple[int, int], group: int | None = None, module: str = "weight") -> int:
        """The group that `module`'s weight [N, K] gets. Raises ConfigError where the format does not fit."""
        width = shape[1]
        fitting = [candidate for candidate in self.groups if width % candidate == 0]
        if not self.groups:
            if group is not None:
                raise ConfigError("group", group, f"{self.name} takes no group ({module}, width {width})")
            return 0
        if not fitting:
            needed = f"needs a width divisible by {min(self.groups)}, {module} has width {width}"
            raise ConfigError("format", self.name, needed)
        if group is None:
            return fitting[0]
        if group not in fitting:
            allowed = f"must be one of {', '.join(map(str, fitting))}"
            raise ConfigError("group", group, f"{allowed} for {self.name}, {module}, width {width}")
        return group

    def pack(self, weight: Tensor, group: int | None = None, module: str = "weight") -> PackedWeight:
        """Encode a floating-point weight [N, K], each element as the nearest value that its scale allows.

        Raises ConfigError where the shape or the group does not fit, or a weight is not finite.
        """
        shape = tuple(weight.shape)
        group = self.check(shape, group, module)
        weight = weight.detach().contiguous()
        # the extremes are finite exactly when every weight is
        if weight.numel() and not all(extreme.isfinite() for extreme in weight.aminmax()):
            raise ConfigError("weight", module, "holds values that are not finite")
        return PackedWeight(self.name, shape, *self.encode(weight, group), group)

    def stacks(self, width: int) -> bool:
        """Whether joining codes and scales of weights [·, width] along their first dimension stacks their rows."""
        return self.row_wise

    def encode(self, weight: Tensor, group: int) -> tuple[Tensor, Tensor | None, Tensor | None]:
        """weight [N, K] -> codes, scales, global scale, in the layout that the linear op reads."""
        raise NotImplementedError

    def activations(self, x: Tensor) -> Tensor:
        """x [M, K] f32 as it enters the product: for a format that rounds it too, and whose name says so."""
        return x

    def words(self, weight: PackedWeight) -> tuple[Tensor, Tensor | None, Tensor | None] | None:
        """What `tiles` lays out for a kernel: codes int32 [N, words], block scales [N, spans], row scales [N].

        None: no kernel reads this weight, the reference serves.
        """
        return None

    def unpack(
        self, codes: Tensor, scales: Tensor | None, global_scale: Tensor | None, group: int, width: int
    ) -> Tensor:
        """The inverse of `encode`: f32 [N, width]."""
        raise NotImplementedError


def by_rows(encode: Callable[..., Tensor], *parts: Tensor) -> Tensor:
    """encode(*parts), a chunk of rows at a time; the parts share their first dimension."""
    rows = max(1, _CHUNK // parts[0][0].numel())
    return torch.cat([encode(*chunk) for chunk in zip(*(part.split(rows) for part in parts))])


def absmax(weight: Tensor, group: int) -> Tensor:
    """Largest magnitude of each group along the rows, [N, K] -> f32 [N, K / group]."""
    return by_rows(lambda rows: rows.unflatten(1, (-1, group)).abs().amax(2).float(), weight)
