"""How far a sweep is: two bars on a terminal, a few plain lines elsewhere.

Nothing here runs in a thread: the bars are drawn only when a phase advances, so they never disturb the clock. All of
it goes to stderr, so that stdout is the report alone and may be piped, cut or of any encoding.
"""

import time
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, TextColumn
from rich.progress import Progress as Bars

from acctax import interrupt

REDRAW_SECONDS = 0.2  # on a terminal
PLAIN_SECONDS = 15.0  # between two lines where there is none


class Progress:
    """Over the cells of a sweep and the phases of the current cell.

    with Progress(cells=6) as progress:
        with progress.cell("nvfp4_qkv K=1"):
            with progress.phase("decode", total=24) as phase:
                phase.advance()  # outside whatever is being timed
    """

    def __init__(self, cells: int, console: Console | None = None):
        self.cells = cells
        self.console = console or Console(stderr=True)
        self.done = 0
        self._seconds_spent = 0.0  # in the cells that are done
        self._cell_started = self._shown = time.monotonic()
        self._bars = None
        if self.console.is_terminal and not self.console.quiet:
            columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.percentage:3.0f} %"),
                       TextColumn("{task.fields[left]}"))
            self._bars = Bars(*columns, console=self.console, auto_refresh=False, transient=True)

    @classmethod
    def silent(cls) -> "Progress":
        return cls(cells=1, console=Console(quiet=True))

    def __enter__(self) -> "Progress":
        if self._bars:
            self._bars.start()
            self._sweep_bar = self._bars.add_task("sweep", total=self.cells, left="")
        return self

    def __exit__(self, *_: object) -> None:
        if self._bars:
            self._bars.stop()

    def note(self, text: str) -> None:
        """A line that stays, above the bars."""
        (self._bars.console if self._bars else self.console).print(text, highlight=False, markup=False, soft_wrap=True)

    @contextmanager
    def cell(self, label: str) -> Iterator[None]:
        self._cell_started = time.monotonic()
        if self._bars:
            self._bars.update(self._sweep_bar, description=f"cell {self.done + 1}/{self.cells} {label}")
            self._bars.refresh()
        else:
            self.note(f"[{self.done + 1}/{self.cells}] {label}")
        try:
            yield
        finally:
            self.done += 1
            self._seconds_spent += time.monotonic() - self._cell_started
            if self._bars:
                self._bars.update(self._sweep_bar, completed=self.done, left=self._sweep_left())

    @contextmanager
    def phase(self, name: str, total: int) -> Iterator["Phase"]:
        phase = Phase(self, name, total)
        bar = self._bars.add_task(f"  {name}", total=total, left="") if self._bars else None
        phase.bar = bar
        try:
            self._show(phase)
            yield phase
        finally:
            if self._bars:
                self._bars.remove_task(bar)

    def _show(self, phase: "Phase") -> None:
        now = time.monotonic()
        if now - self._shown < (REDRAW_SECONDS if self._bars else PLAIN_SECONDS):
            return
        self._shown = now
        if self._bars:
            self._bars.update(phase.bar, completed=phase.advanced, left=phase.left())
            self._bars.update(self._sweep_bar, left=self._sweep_left())
            self._bars.refresh()
        else:
            left = ", ".join(text for text in (phase.left(), self._sweep_left("sweep: ")) if text)
            self.note(f"      {phase.name} {100 * phase.advanced / max(phase.total, 1):.0f} %" + (left and f", {left}"))

    def _sweep_left(self, prefix: str = "") -> str:
        """From the mean of the cells that are done: nothing to say during the first."""
        if not self.done:
            return ""
        per_cell = self._seconds_spent / self.done
        in_cell = min(time.monotonic() - self._cell_started, per_cell) if self.done < self.cells else 0.0
        return prefix + _clock(per_cell * (self.cells - self.done) - in_cell)


class Phase:
    """A stretch of a cell whose steps take about equally long."""

    def __init__(self, progress: Progress, name: str, total: int):
        self.name, self.total, self.advanced = name, total, 0
        self.bar = None
        self._progress, self._started = progress, time.monotonic()

    def advance(self, steps: int = 1) -> None:
        """Raises KeyboardInterrupt where one came and was lost."""
        interrupt.check()
        self.advanced += steps
        self._progress._show(self)

    def left(self) -> str:
        if not self.advanced:
            return ""
        spent = time.monotonic() - self._started
        return _clock(spent * max(self.total - self.advanced, 0) / self.advanced)


def _clock(seconds: float) -> str:
    minutes, seconds = divmod(round(seconds), 60)
    return f"{minutes}:{seconds:02d} left"
