"""The pictures of a sweep, one file each: SVG whose bytes depend on the rows alone."""

from dataclasses import dataclass

from acctax.analyze.sweep import Sweep
from acctax.report.pictures import (
    acceptance_by_position,
    byte_win_over_tv,
    bytes_by_component,
    forward_time,
    style,
    tok_s_over_k,
    waterfall,
)

DRAWN = (waterfall, tok_s_over_k, acceptance_by_position, byte_win_over_tv, forward_time, bytes_by_component)


@dataclass(frozen=True)
class Picture:
    name: str
    caption: str
    svg: str  # a file of its own

    @property
    def file(self) -> str:
        return f"{self.name}.svg"


def draw(sweep: Sweep) -> dict[str, Picture]:
    """By name, without those for which the sweep has no figures."""
    drawn = {}
    with style.applied():
        for module in DRAWN:
            name = module.__name__.rpartition(".")[2]
            if figure := module.draw(sweep):
                drawn[name] = Picture(name, module.CAPTION, style.svg(figure))
    return drawn
