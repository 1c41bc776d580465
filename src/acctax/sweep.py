"""A sweep: every cell checked before the first is measured, each measured and logged, the report at the end."""

import time
import traceback
from collections.abc import Callable, Iterable, Sequence
from contextvars import ContextVar
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from hydra.core.hydra_config import HydraConfig
from omegaconf import DictConfig

from acctax import environment
from acctax.config import Cell, from_hydra
from acctax.errors import ConfigError
from acctax.progress import Progress
from acctax.record import Failure, Lever, Measured, Record

if TYPE_CHECKING:
    from acctax.analyze.rows import Row

PROGRESS: ContextVar[Progress] = ContextVar("progress", default=Progress.silent())


class CellsFailed(RuntimeError):
    """Some cells of a sweep could not be measured; the message has a line for each."""


def check(composed: Iterable[tuple[DictConfig, Sequence[str]]]) -> list[Cell]:
    """The cells of (configuration, overrides) pairs. Raises ConfigError for the first that cannot run."""
    import acctax.draft  # noqa: F401  the sources make themselves known; torch is not imported before it is needed
    from acctax.measure.job import preflight

    cells = [from_hydra(cfg, overrides) for cfg, overrides in composed]
    for i, cell in enumerate(cells):
        if any(cell.choices() == earlier.choices() for earlier in cells[:i]):
            named = " ".join(f"{name}={value}" for name, value in cell.choices().items())
            allowed = "is asked for twice: a sweep is over these choices, any other takes its own"
            raise ConfigError("cell", named, allowed)
    for cell in cells:
        preflight(cell)
    return cells


def make_folder(folder: Path) -> Path:
    """Where the report goes. Raises ConfigError where it cannot be made."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError("hydra.sweep.dir", folder, f"must be a folder that can be made ({error.strerror})") from error
    return folder


def measure_cell(cfg: DictConfig) -> Record:
    from acctax.analyze.rows import analyze
    from acctax.measure.job import measure

    cell = from_hydra(cfg, HydraConfig.get().overrides.task)
    return measure(cell, PROGRESS.get(), lambda record: analyze(record, cell.verdict).wanted)


def run(cells: Sequence[Cell], launch: Callable[[int], Record], folder: Path, command: str) -> list[Record]:
    """Measure the cells in order, one at a time; launch(i) is measure_cell of the i-th. The report goes to folder.

    command: the command line that asked for all of them. A cell that fails ends as FAILED and the sweep goes on; at the
    end CellsFailed names them. An interrupt leaves the sweep and the open cell KILLED, and what was measured reported.
    """
    from acctax import tracking

    log = tracking.Sweep(cells[0].tracking, str(folder), environment.describe(), command, cells[0].verdict)
    sweep = _Sweep(cells, launch, log)
    status = "FAILED"
    try:
        try:
            sweep.measure()
            sweep.pull_levers()
        finally:
            sweep.report(folder)
        status = "FAILED" if sweep.failures else "FINISHED"
    except KeyboardInterrupt:
        status = "KILLED"
        done = f"interrupted, {len(sweep.records)} of {len(cells)} cells are measured"
        raise KeyboardInterrupt(done + ", the same command goes on from there" * log.takes_over) from None
    finally:
        log.end(status)
    if sweep.failures:
        raise CellsFailed("\n".join(f"failed: {cell.name}: {cell.reason}" for cell in sweep.failures))
    return sweep.records


class _Sweep:
    def __init__(self, cells: Sequence[Cell], launch: Callable[[int], Record], log):
        self.cells, self.launch, self.log = cells, launch, log
        self.records: list[Record] = []
        self.rows: list["Row"] = []  # of the records
        self.levers: list[Lever] = []
        self.failures: list[Failure] = []
        self._curves: dict[str, list[tuple[Cell, dict[str, float]]]] = {}  # by scheme
        self._names = _names(cells)

    def measure(self) -> None:
        with Progress(len(self.cells)) as progress:
            token = PROGRESS.set(progress)
            try:
                for number in range(len(self.cells)):
                    with progress.cell(self._names[number]):
                        progress.note(f"{self._names[number]}: {self._measure_one(number)}")
            finally:
                PROGRESS.reset(token)

    def _measure_one(self, number: int) -> str:
        """One line on how it went."""
        from acctax.analyze.rows import analyze
        from acctax.measure.job import set_up

        cell, name, started = self.cells[number], self._names[number], time.monotonic()
        origin, record = self.log.find_finished(cell, set_up(cell)) or (None, None)
        step = cell.K if self._over_K(cell) else 0  # on the curve over K, where there is one
        run_id = self.log.start_cell(cell, name, origin)
        try:
            record = record or self._launch(number)
            self.log.log_record(run_id, record)
            row = analyze(record, cell.verdict)
            self.log.end_cell(run_id, f"{name} {row.verdict}", row.metrics(), row.verdict, row.reason, step)
        except Exception as error:
            reason = _line(error)
            self.log.break_cell(run_id, reason, traceback.format_exc())
            self.failures.append(Failure(name, reason, cell.rerun_command))
            return f"FAILED, {reason}"
        self.records.append(record)
        self.rows.append(row)
        if self._over_K(cell):
            self._curves.setdefault(cell.scheme, []).append((cell, row.metrics()))
        how = f"measured before, run {origin}" if origin else f"{time.monotonic() - started:.0f} s"
        return f"{row.verdict} {row.reason} ({how})"

    def _launch(self, number: int) -> Record:
        rivals = self.log.rivals()
        record = self.launch(number)
        if rivals := rivals | self.log.rivals():
            pids = ", ".join(map(str, sorted(rivals)))
            record = replace(record, environment=record.environment | {"rivals": pids})
        return record

    def _over_K(self, cell: Cell) -> bool:
        return sum(other.scheme == cell.scheme for other in self.cells) > 1

    def pull_levers(self) -> None:
        """What more of the fastest candidate could be quantized, kept on the sweep's run."""
        from acctax.analyze.sweep import fastest

        best = fastest(self.rows)
        if best is None or not self.cells[0].measure.levers:
            return
        from acctax.measure.levers import measure_levers

        record = next(record for record, row in zip(self.records, self.rows) if row is best)
        cell = next(cell for cell in self.cells if cell.cell_id == record.cell_id)
        name = "levers of the fastest candidate"
        try:
            with Progress(cells=1) as progress, progress.cell(name):
                self.levers = measure_levers(cell, record, progress)
            self.log.store_levers(self.levers)
        except Exception as error:
            self.failures.append(Failure(name, _line(error), cell.rerun_command))

    def report(self, folder: Path) -> None:
        if not self.records:
            return
        from acctax import report

        for points in self._curves.values():
            cell = points[0][0]
            name = self._names[self.cells.index(cell)].replace(f"K={cell.K}", "over K")
            self.log.log_curve(cell, name, [(cell.K, metrics) for cell, metrics in points])
        findings = report.read(Measured(self.records, self.failures, self.levers), self.cells[0].verdict)
        files = report.write(findings, folder)
        self.log.store_report(files, report.spoken(findings))  # before any terminal can refuse to show it
        report.print_terminal(findings, folder)


def _line(error: Exception) -> str:
    return " ".join(f"{type(error).__name__}: {error}".split())


def _names(cells: Sequence[Cell]) -> list[str]:
    """What tells each cell from the others: its target_quant, its K, and whatever else varies."""
    choices = [cell.choices() for cell in cells]
    varying = [name for name in choices[0] if name == "K" or len({c[name] for c in choices}) > 1]
    telling = [name for name in varying if name != "target_quant"]
    return [" ".join([c["target_quant"], *(f"{name}={c[name]}" for name in telling if c[name] != "none")])
            for c in choices]
