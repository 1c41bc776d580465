"""Tables on a terminal that is too narrow for them: intervals go below their values, then columns below one another."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from rich.cells import cell_len

from acctax.report.tables import Table

GUTTER = 2  # columns of a terminal between two of a table
PAIR = 12  # letters of "1.55 → 1.19", which stays on one line
NAMES = 0.4  # of the width, that the first column may take


@dataclass(frozen=True)
class Block:
    """A table, or columns of one, as a terminal has room for it."""

    table: Table
    widths: tuple[int, ...]  # of its columns


def fold(table: Table, width: int) -> list[Block]:
    """The table as it stands where it fits; else with folded cells, in as many blocks below one another as it takes."""
    for widths in (_widths(table, str.splitlines), _widths(table, str.split)):
        if _total(widths) <= width:
            return [Block(table, tuple(widths))]
    folded = replace(table, groups=tuple(tuple(tuple(map(_below, row)) for row in group) for group in table.groups))
    widths = _widths(folded, str.split)
    widths[0] = min(widths[0], int(NAMES * width))
    blocks = [[0]]
    for column in range(1, len(widths)):
        if len(blocks[-1]) > 1 and _total([widths[i] for i in (*blocks[-1], column)]) > width:
            blocks.append([0])
        blocks[-1].append(column)
    return [Block(_only(folded, block), tuple(widths[i] for i in block)) for block in blocks]


def _only(table: Table, columns: Sequence[int]) -> Table:
    groups = tuple(tuple(tuple(row[i] for i in columns) for row in group) for group in table.groups)
    return replace(table, header=tuple(table.header[i] for i in columns), groups=groups)


def _below(cell: str) -> str:
    """Its interval on a line of its own, and in a long one what an arrow leads to."""
    return (cell.replace(" → ", " →\n") if len(cell) > PAIR else cell).replace(" [", "\n[")


def _widths(table: Table, pieces: Callable[[str], list[str]]) -> list[int]:
    """Of its columns, with the pieces of a header below one another."""
    return [max(map(cell_len, [*pieces(header), *(line for cell in cells for line in cell.splitlines())]))
            for header, *cells in zip(table.header, *table.rows)]  # fmt: skip


def _total(widths: Sequence[int]) -> int:
    return sum(widths) + GUTTER * (len(widths) - 1)
