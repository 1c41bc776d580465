"""A table as text in cells: the terminal, Markdown, LaTeX and HTML render the same one."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from acctax.analyze.rows import Row
from acctax.analyze.sweep import Sweep
from acctax.report.tables.text import name


@dataclass(frozen=True)
class Table:
    key: str  # names it in links and labels
    title: str
    header: tuple[str, ...]  # units included
    groups: tuple[tuple[tuple[str, ...], ...], ...]  # one group of rows per scheme
    note: str = ""

    @property
    def rows(self) -> Iterator[tuple[str, ...]]:
        return (row for group in self.groups for row in group)

    @property
    def apart(self) -> tuple[tuple[tuple[str, ...], ...], ...]:
        """Groups to set apart: none where each is a single row."""
        return self.groups if any(len(group) > 1 for group in self.groups) else (tuple(self.rows),)


def has_figures(row: Row) -> bool:
    return bool(row.figures.values)


def per_cell(
    sweep: Sweep,
    key: str,
    title: str,
    header: Sequence[str],
    cells: Callable[[Row], Sequence[str]],
    note: str = "",
    of: Callable[[Row], bool] = has_figures,
) -> Table | None:
    """A row per cell of which `of` holds; None where there is no such cell."""
    groups = (tuple((name(sweep, scheme, row), *cells(row)) for row in scheme.rows if of(row))
              for scheme in sweep.schemes)  # fmt: skip
    filled = tuple(filter(None, groups))
    return Table(key, title, ("cell", *header), filled, note) if filled else None
