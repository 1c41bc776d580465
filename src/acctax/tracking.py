"""MLflow: a parent run per sweep, a child per cell, a run per scheme whose metrics step over K, and the way back.

No torch here. Writing happens outside timed regions, in a few batches, from the parent process alone.
"""

import csv
import fcntl
import io
import json
import logging
import math
import os
import socket
import sqlite3
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")
os.environ.setdefault("MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR", "false")
os.environ.setdefault("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "2")  # a server that is away is said so in seconds

from mlflow import MlflowClient  # noqa: E402  reads the variables above
from mlflow.entities import Metric, Param, Run, RunTag  # noqa: E402
from mlflow.exceptions import MlflowException  # noqa: E402
from sqlalchemy.exc import SQLAlchemyError  # noqa: E402

from acctax.config import Cell, Tracking, Verdict  # noqa: E402
from acctax.errors import ConfigError  # noqa: E402
from acctax.record import Failure, Lever, Measured, Record, levers_from_json, levers_to_json  # noqa: E402

LONGEST_TEXT = 500  # of a param or tag; MLflow refuses longer params
LARGEST_BATCH = 1000  # metrics in one call
SQLITE = "sqlite:///"
NOTE = "mlflow.note.content"  # Markdown on a run's page
LEVERS = "levers.json"  # of the parent run
SHORTEST_ID = 6  # of the letters that a run's id begins with, for a sweep to be named by them
logging.getLogger("mlflow").setLevel(logging.WARNING)  # it reports every step of making a database


@dataclass(frozen=True)
class Store:
    client: MlflowClient
    experiment_id: str
    uri: str

    def search(self, condition: str, status: str | None = None) -> list[Run]:
        """Runs whose tags or attributes meet the condition, newest first."""
        if status:
            condition += f" and attributes.status = '{status}'"
        return self.client.search_runs([self.experiment_id], condition, order_by=["attributes.start_time DESC"])

    def read_record(self, run_id: str) -> Record:
        with tempfile.TemporaryDirectory() as folder:
            return Record.from_json(Path(self.client.download_artifacts(run_id, "record.json", folder)).read_text())

    def read_levers(self, sweep_id: str) -> list[Lever]:
        """None where none were asked for."""
        if not any(file.path == LEVERS for file in self.client.list_artifacts(sweep_id)):
            return []
        with tempfile.TemporaryDirectory() as folder:
            return levers_from_json(Path(self.client.download_artifacts(sweep_id, LEVERS, folder)).read_text())


def open_store(settings: Tracking) -> Store:
    """The store, its schema and the experiment made if absent. Raises ConfigError where it cannot be opened."""
    uri = _uri(settings.uri)
    _check_artifacts(settings.artifacts)
    try:
        with _alone(uri):
            client = MlflowClient(tracking_uri=uri, registry_uri=uri)
            experiment = client.get_experiment_by_name(settings.experiment)
            experiment_id = experiment.experiment_id if experiment else client.create_experiment(
                settings.experiment, artifact_location=settings.artifacts or _artifacts(uri))
    except (OSError, sqlite3.Error, SQLAlchemyError, MlflowException) as error:
        raise ConfigError("tracking.uri", uri, f"cannot be opened ({_line(error)})") from error
    return Store(client, experiment_id, uri)


@contextmanager
def _alone(uri: str) -> Iterator[None]:
    """Of the processes that open a SQLite file at once, one makes its schema and the others wait."""
    if not uri.startswith(SQLITE):
        yield
        return
    database = Path(uri.removeprefix(SQLITE))
    database.parent.mkdir(parents=True, exist_ok=True)
    with open(f"{database}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with closing(sqlite3.connect(database)) as connection:
            connection.execute("PRAGMA journal_mode=WAL")
        yield


def _check_artifacts(location: str | None) -> None:
    """A local folder must be one that can be made, before an experiment remembers it for good."""
    if location is None or ("://" in location and not location.startswith("file://")):
        return
    try:
        Path(location.removeprefix("file://")).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        allowed = f"must be a folder that can be made ({error.strerror})"
        raise ConfigError("tracking.artifacts", location, allowed) from error


def _uri(uri: str | None) -> str:
    return uri or os.environ.get("MLFLOW_TRACKING_URI") or f"{SQLITE}{Path('mlruns/mlflow.db').resolve()}"


def _artifacts(uri: str) -> str | None:
    return Path(uri.removeprefix(SQLITE)).with_name("artifacts").resolve().as_uri() if uri.startswith(SQLITE) else None


def _line(error: Exception) -> str:
    return str(error).strip().splitlines()[0]


class Sweep:
    """A sweep in the making: its parent run, open until `end`."""

    def __init__(self, settings: Tracking, name: str, environment: Mapping[str, str], command: str, rules: Verdict):
        """environment: acctax.environment.describe(). Raises ConfigError where the store cannot be used."""
        self._store, self._reuse, self._environment = open_store(settings), settings.reuse, dict(environment)
        self._end_stale_runs()
        self.run_id = self._start("sweep", name, {"rerun": command, "rules": json.dumps(asdict(rules))})
        try:
            self._store.client.log_text(self.run_id, command, "command.txt")
        except (OSError, MlflowException) as error:
            self._store.client.delete_run(self.run_id)
            reason = f"cannot be written ({_line(error)})"
            raise ConfigError("tracking.artifacts", settings.artifacts, reason) from error

    def _start(self, kind: str, name: str, tags: Mapping[str, str], params: Mapping[str, object] | None = None) -> str:
        tags = {"kind": kind, **self._environment, "pid": str(os.getpid()), **tags}
        if kind != "sweep":
            tags["mlflow.parentRunId"] = self.run_id
        run = self._store.client.create_run(self._store.experiment_id, run_name=name, tags=_short(tags))
        if params:
            batch = [Param(name, value) for name, value in _short(params).items()]
            self._store.client.log_batch(run.info.run_id, params=batch)
        return run.info.run_id

    def _end_stale_runs(self) -> None:
        """Runs that a killed process left open."""
        for run in self._open_here():
            if not _is_alive(int(run.data.tags["pid"])):
                self._store.client.set_terminated(run.info.run_id, status="KILLED")

    def rivals(self) -> set[int]:
        """Other processes that measure on this machine now, as far as this store knows."""
        pids = {int(run.data.tags["pid"]) for run in self._open_here()}
        return {pid for pid in pids - {os.getpid()} if _is_alive(pid)}

    def _open_here(self) -> list[Run]:
        """Only where the store is a local file is a pid this machine's."""
        here = self._store.uri.startswith(SQLITE)
        return self._store.search(f"tags.host = '{socket.gethostname()}'", status="RUNNING") if here else []

    @property
    def takes_over(self) -> bool:
        """Whether finished cells are, instead of being measured again: those of a commit that says what code ran."""
        commit = self._environment["commit"]
        return self._reuse and commit != "unknown" and not commit.endswith("-dirty")

    def find_finished(self, cell: Cell, runs_on: Mapping[str, str]) -> tuple[str, Record] | None:
        """The run and record of the same cell, validly measured on the same hardware by the same clean commit.

        runs_on: what else must be the same in the record's environment (kernels, threads).
        """
        if not self.takes_over:
            return None
        for run in self._store.search(f"tags.kind = 'cell' and tags.cell_id = '{cell.cell_id}'", status="FINISHED"):
            if run.data.tags.get("verdict") == "INVALID":
                continue  # whatever spoilt it may be over
            if all(run.data.tags.get(key) == _cut(self._environment[key]) for key in ("commit", "hardware")):
                record = self._store.read_record(run.info.run_id)
                if "rivals" in record.environment:
                    continue  # its clock was not alone
                if runs_on.items() <= record.environment.items():
                    return run.data.tags.get("origin", run.info.run_id), record
        return None

    def start_cell(self, cell: Cell, name: str, origin: str | None = None) -> str:
        """Open a cell's run; origin: the run whose measurement it takes over."""
        tags = {"cell_id": cell.cell_id, "rerun": cell.rerun_command} | ({"origin": origin} if origin else {})
        run_id = self._start("cell", name, tags, cell.choices())
        self._store.client.log_text(run_id, cell.to_yaml(), "config.yaml")
        return run_id

    def log_record(self, run_id: str, record: Record) -> None:
        with tempfile.TemporaryDirectory() as folder:
            for name, text in (("record.json", record.to_json()), ("prompts.jsonl", _prompts(record)),
                               ("forward_seconds.csv", _forward_seconds(record))):
                Path(folder, name).write_text(text)
            self._store.client.log_artifacts(run_id, folder)

    def end_cell(self, run_id: str, name: str, metrics: Mapping[str, float], verdict: str, reason: str,
                 step: int = 0) -> None:
        """name: the run's from now on; a compared run shows its name, but no tag."""
        tags = _short({"verdict": verdict, "reason": reason, "mlflow.runName": name, NOTE: f"**{verdict}** {reason}"})
        self._log_metrics(run_id, [(metrics, step)], [RunTag(key, value) for key, value in tags.items()])
        self._store.client.set_terminated(run_id)

    def break_cell(self, run_id: str, reason: str, traceback: str) -> None:
        self._store.client.set_tag(run_id, "reason", _cut(reason))
        self._store.client.log_text(run_id, traceback, "traceback.txt")
        self._store.client.set_terminated(run_id, status="FAILED")

    def log_curve(self, cell: Cell, name: str, points: Iterable[tuple[int, Mapping[str, float]]]) -> None:
        """One run that holds a scheme's metrics over K (as MLflow's step); cell: any cell of the scheme."""
        choices = {name: value for name, value in cell.choices().items() if name != "K"}
        run_id = self._start("curve", name, {}, choices)
        self._log_metrics(run_id, [(metrics, K) for K, metrics in points])
        self._store.client.set_terminated(run_id)

    def _log_metrics(self, run_id: str, steps: Sequence[tuple[Mapping[str, float], int]],
                     tags: Sequence[RunTag] = ()) -> None:
        now = int(1000 * time.time())
        metrics = [Metric(name, float(value), now, step) for values, step in steps for name, value in values.items()
                   if math.isfinite(value)]  # the chart view draws no others
        for start in range(0, max(len(metrics), 1), LARGEST_BATCH):
            self._store.client.log_batch(run_id, metrics=metrics[start:start + LARGEST_BATCH], tags=tags)

    def store_levers(self, levers: list[Lever]) -> None:
        self._store.client.log_text(self.run_id, levers_to_json(levers), LEVERS)

    def store_report(self, files: Iterable[Path], note: str) -> None:
        """note: Markdown, shown on the sweep's page."""
        self._store.client.set_tag(self.run_id, NOTE, note)
        for file in files:
            self._store.client.log_artifact(self.run_id, str(file), "report")

    def end(self, status: str) -> None:
        """Close the sweep, and as KILLED whatever an interrupt left open below it."""
        for run in self._store.search(f"tags.`mlflow.parentRunId` = '{self.run_id}'", status="RUNNING"):
            self._store.client.set_tag(run.info.run_id, "reason", "interrupted")
            self._store.client.set_terminated(run.info.run_id, status="KILLED")
        self._store.client.set_terminated(self.run_id, status=status)


def read_sweep(
    uri: str | None = None, sweep_id: str | None = None, experiment: str = "acctax"
) -> tuple[Measured, Verdict]:
    """What a sweep left, in the order it was measured, and the rules it was judged by.

    uri: None is MLFLOW_TRACKING_URI, else mlruns/mlflow.db below the working directory. sweep_id: the parent's run id,
    or what it alone begins with; None is the latest that has a finished cell. Raises ConfigError where there is none.
    """
    uri = _uri(uri)
    if uri.startswith(SQLITE) and not Path(uri.removeprefix(SQLITE)).is_file():
        raise ConfigError("tracking.uri", uri, "no such file, nothing has been measured here yet")
    store = open_store(Tracking(uri=uri, experiment=experiment, artifacts=None, reuse=False))
    sweeps = [run.info.run_id for run in store.search("tags.kind = 'sweep'")]
    if sweep_id:
        sweeps = [_the_one(sweep_id, sweeps, uri)]
    for candidate in sweeps:
        of_sweep = f"tags.kind = 'cell' and tags.`mlflow.parentRunId` = '{candidate}'"
        finished, failed = (store.search(of_sweep, status)[::-1] for status in ("FINISHED", "FAILED"))
        if finished:
            records = [store.read_record(run.info.run_id) for run in finished]
            failures = [Failure(run.info.run_name, run.data.tags["reason"], run.data.tags["rerun"]) for run in failed]
            rules = json.loads(store.client.get_run(candidate).data.tags["rules"])
            return Measured(records, failures, store.read_levers(candidate)), Verdict(**rules)
    raise ConfigError("sweep", sweep_id or "latest", f"no sweep with a finished cell in {uri}")


def _the_one(begins: str, sweeps: Sequence[str], uri: str) -> str:
    """The run id of these that begins so. Raises ConfigError where there is none, or another."""
    found = [sweep for sweep in sweeps if sweep.startswith(begins)]
    if len(begins) < SHORTEST_ID:
        raise ConfigError("sweep", begins, f"must be a run id, {SHORTEST_ID} or more of its first letters, or latest")
    if not found:
        raise ConfigError("sweep", begins, f"no such sweep in {uri}")
    if len(found) > 1:
        raise ConfigError("sweep", begins, f"must name one sweep, {' and '.join(found[:2])} begin so")
    return found[0]


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return True


def _cut(text: str) -> str:
    return text if len(text) <= LONGEST_TEXT else text[:LONGEST_TEXT - 1] + "…"


def _short(texts: Mapping[str, object]) -> dict[str, str]:
    return {name: _cut(str(value)) for name, value in texts.items()}


def _prompts(record: Record) -> str:
    arms = (("reference", record.reference), ("candidate", record.candidate))
    return "".join(json.dumps({"arm": name, **asdict(prompt)}) + "\n" for name, arm in arms for prompt in arm.prompts)


def _forward_seconds(record: Record) -> str:
    """T(M): a line per arm, round and number of rows."""
    text = io.StringIO()
    table = csv.writer(text)
    table.writerow(("arm", "round", "M", "seconds"))
    for name, arm in (("reference", record.reference), ("candidate", record.candidate)):
        table.writerows((name, number, M, T) for number, clock in enumerate(arm.rounds) for M, T in clock.T.items())
    return text.getvalue()
