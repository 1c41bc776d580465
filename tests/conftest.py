import os
import sqlite3
import sys
import types
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")  # threads that wait for each other take ages on a busy machine

import pytest
from hydra import compose as hydra_compose
from hydra import initialize_config_dir

import acctax.draft  # noqa: F401  its sources are options of the config
from acctax import config
from acctax.config import Cell
from acctax.paths import conf_dir
from acctax.record import Arm, Measured, PromptRecord, Record, Round


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """What tests recorded to be read, whichever process they ran in."""
    for report in terminalreporter.getreports("passed"):
        for title, text in report.user_properties:
            terminalreporter.section(title)
            terminalreporter.write_line(text)


@pytest.fixture
def compose() -> Callable[..., Cell]:
    """compose("target=random_llama", "K=2") is the checked cell, as the command line would make it."""
    config.register_options()

    def cell(*overrides: str) -> Cell:
        with initialize_config_dir(str(conf_dir()), version_base="1.3"):
            return config.from_hydra(hydra_compose("config", list(overrides)), overrides)

    return cell


@dataclass(frozen=True)
class Outcome:
    code: int
    out: str
    err: str


@pytest.fixture
def cli(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture) -> Callable[..., Outcome]:
    """cli("K=1,2", "-m") runs the command in this process, in an empty folder that stays the working directory."""
    from acctax.__main__ import main

    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    monkeypatch.setenv("HYDRA_FULL_ERROR", "0")

    def run(*arguments: str) -> Outcome:
        monkeypatch.setattr(sys, "argv", ["acctax", *arguments])
        capfd.readouterr()
        monkeypatch.setenv("HYDRA_FULL_ERROR", "0")
        try:
            main()
            code = 0
        except SystemExit as stop:
            code = stop.code or 0
        return Outcome(code, *capfd.readouterr())

    return run


@pytest.fixture(scope="session")
def make_store(tmp_path_factory: pytest.TempPathFactory) -> Callable[[Path], str]:
    """make_store(folder) is the URI of a store there, a copy: making one with its schema takes seconds."""
    from acctax import tracking

    template = tmp_path_factory.mktemp("store") / "mlflow.db"
    tracking.open_store(tracking.Tracking(f"sqlite:///{template}", "template", None, reuse=False))

    def make(folder: Path) -> str:
        folder.mkdir(parents=True, exist_ok=True)
        with closing(sqlite3.connect(template)) as source, closing(sqlite3.connect(folder / "mlflow.db")) as copy:
            source.backup(copy)
        return f"sqlite:///{folder / 'mlflow.db'}"

    return make


@pytest.fixture
def make_record() -> Callable[[Cell], Record]:
    """make_record(cell) is a small record, with figures that hold together."""
    return _make_record


def _make_record(cell: Cell) -> Record:
    K = cell.K
    prompt = PromptRecord("p0", "chat", 5, [1, 2, 3], [K], [min(K, 2)], [3], False, False, 0.1)
    clock = Round({m: 0.01 + 0.001 * m for m in range(1, K + 2)}, 0.002 * K, 0.03, 0.011)
    arm = Arm([prompt], [clock, clock], {"lm_head": 100.0}, {"lm_head": 100.0, "drafter": 50.0})
    return Record(cell.choices(), cell.cell_id, cell.is_reference, arm, arm, [1e10, 1e10], {"hardware": "test"},
                  cell.rerun_command)


@dataclass
class FakeWork:
    """Stands in for measuring, judging and reporting, where a test is about what holds them together."""

    measure: Callable[[Cell], Record] = _make_record
    preflight: Callable[[Cell], None] = lambda cell: None
    measured: list[Cell] = field(default_factory=list)
    reported: list[Record] = field(default_factory=list)


@dataclass(frozen=True)
class FakeRow:
    verdict: str = "ACCEPT"
    reason: str = "it pays"

    def metrics(self) -> dict[str, float]:
        return {"accept/tau": 2.5, "tax/clocked": float("nan")}


@pytest.fixture
def fake_work(monkeypatch: pytest.MonkeyPatch) -> FakeWork:
    fake = FakeWork()

    def measure(cell: Cell, progress, wanted) -> Record:
        fake.measured.append(cell)
        with progress.phase("decode", total=2) as phase:
            phase.advance(2)
        return fake.measure(cell)

    def write(measured: Measured, folder: Path) -> list[Path]:
        fake.reported.extend(measured.records)
        file = Path(folder, "report.md")
        file.write_text("# report\n")
        return [file]

    stand_ins = {
        "acctax.measure.job": {"measure": measure, "preflight": lambda cell: fake.preflight(cell),
                                "set_up": lambda cell: {}},
        "acctax.analyze.rows": {"analyze": lambda record, verdict: FakeRow()},
        "acctax.analyze.sweep": {"fastest": lambda rows: None},
        "acctax.measure.levers": {"measure_levers": lambda cell, record, progress: []},
        "acctax.report": {"read": lambda measured, verdict: measured, "spoken": lambda measured: "it pays",
                          "print_terminal": lambda measured, folder: print("the table"), "write": write},
    }
    for name, functions in stand_ins.items():
        module = types.ModuleType(name)
        vars(module).update(functions)
        monkeypatch.setitem(sys.modules, name, module)
        package, _, attribute = name.rpartition(".")
        if package in sys.modules:
            monkeypatch.setattr(sys.modules[package], attribute, module, raising=False)
    return fake


@pytest.fixture
def cuda_source() -> Iterator[None]:
    """The GPU's own kernels run every op, as the CPU runs their source."""
    from acctax.ops.toolchain import BuildError, compiler
    from tests.ops.cuda.kernels import in_charge

    try:
        compiler()
    except BuildError as error:
        pytest.skip(str(error))
    with in_charge() as shim:
        shim.seed(1)
        yield
