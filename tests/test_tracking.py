import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from mlflow import MlflowClient

from acctax import tracking
from acctax.config import Verdict
from acctax.errors import ConfigError
from acctax.record import Along, Lever, Lossless, Measured, Record, Scored

RULES = Verdict(tax_threshold=0.4, margin=0.01, resamples=300)
ENVIRONMENT = {"hardware": "a machine", "host": tracking.socket.gethostname(), "versions": "v", "commit": "abc"}


@pytest.fixture
def uri(make_store, tmp_path) -> str:
    return make_store(tmp_path)


@pytest.fixture
def sweep(uri):
    return _sweep(uri)


def _sweep(uri: str, **environment: str) -> tracking.Sweep:
    settings = tracking.Tracking(uri, "acctax", None, reuse=True)
    return tracking.Sweep(settings, "a sweep", ENVIRONMENT | environment, "python -m acctax K=1,2", RULES)


@pytest.fixture
def finish(make_record):
    def finish(sweep, cell):
        run_id = sweep.start_cell(cell, f"K={cell.K}")
        sweep.log_record(run_id, make_record(cell))
        metrics = {"accept/tau": 2.5, "tax/a": float("nan"), "tax/b": float("inf")}
        sweep.end_cell(run_id, f"K={cell.K} ACCEPT", metrics, "ACCEPT", "why", cell.K)
        return run_id

    return finish


def test_a_cell_is_logged_whole(uri, sweep, compose, tmp_path, finish):
    cell = compose("target_quant=nvfp4_qkv", "K=2")
    run_id = finish(sweep, cell)
    sweep.end("FINISHED")
    client = MlflowClient(uri)
    run = client.get_run(run_id)
    assert run.data.params == {name: str(value) for name, value in cell.choices().items()}
    assert run.data.metrics == {"accept/tau": 2.5} and run.info.run_name == "K=2 ACCEPT"
    assert [metric.step for metric in client.get_metric_history(run_id, "accept/tau")] == [2]
    tags = run.data.tags
    assert tags["mlflow.parentRunId"] == sweep.run_id and tags["verdict"] == "ACCEPT" and tags["reason"] == "why"
    assert tags["cell_id"] == cell.cell_id and tags["rerun"] == cell.rerun_command
    assert ENVIRONMENT.items() <= tags.items()
    assert run.info.status == "FINISHED" == client.get_run(sweep.run_id).info.status
    files = {file.path for file in client.list_artifacts(run_id)}
    assert files == {"config.yaml", "record.json", "prompts.jsonl", "forward_seconds.csv"}
    prompts = Path(client.download_artifacts(run_id, "prompts.jsonl", tmp_path)).read_text().splitlines()
    assert [json.loads(line)["arm"] for line in prompts] == ["reference", "candidate"]
    seconds = Path(client.download_artifacts(run_id, "forward_seconds.csv", tmp_path)).read_text().splitlines()
    assert seconds[0] == "arm,round,M,seconds" and len(seconds) == 1 + 2 * 2 * 3  # arms, rounds, M = 1..K+1


def test_a_curve_steps_over_K(uri, sweep, compose):
    sweep.log_curve(compose("K=1"), "bf16 over K", [(1, {"accept/tau": 1.8}), (2, {"accept/tau": 2.4})])
    client = MlflowClient(uri)
    [run] = [run for run in client.search_runs([sweep._store.experiment_id], "tags.kind = 'curve'")]
    history = client.get_metric_history(run.info.run_id, "accept/tau")
    assert [(metric.step, metric.value) for metric in history] == [(1, 1.8), (2, 2.4)]
    assert "K" not in run.data.params and run.data.tags["mlflow.parentRunId"] == sweep.run_id


def test_read_sweep_returns_what_was_measured(uri, compose, finish, make_record):
    cells = [compose(f"K={K}") for K in (3, 1)]
    first = _sweep(uri)
    for cell in cells:
        finish(first, cell)
    second = _sweep(uri)
    finish(second, compose("K=5"))
    broken = second.start_cell(compose("K=6"), "K=6")
    second.break_cell(broken, "out of memory", "Traceback …")
    empty = _sweep(uri)
    assert tracking.read_sweep(uri, first.run_id) == (Measured([make_record(cell) for cell in cells]), RULES)
    latest = tracking.read_sweep(uri)[0]
    assert [record.choices["K"] for record in latest.records] == [5]
    [failure] = latest.failures
    assert (failure.name, failure.reason) == ("K=6", "out of memory") and "K=6" in failure.rerun
    with pytest.raises(ConfigError, match=f"sweep={empty.run_id}: no sweep with a finished cell"):
        tracking.read_sweep(uri, empty.run_id)


def test_a_sweep_is_named_by_what_its_id_alone_begins_with(uri, compose, finish):
    first, second = _sweep(uri), _sweep(uri)
    for sweep, K in ((first, 1), (second, 2)):
        finish(sweep, compose(f"K={K}"))
    begins = next(first.run_id[:n] for n in range(6, 32) if not second.run_id.startswith(first.run_id[:n]))
    [record] = tracking.read_sweep(uri, begins)[0].records
    assert record.choices["K"] == 1
    for refused, told in ((first.run_id[:5], "6 or more of its first letters"), ("0" * 32, "no such sweep")):
        with pytest.raises(ConfigError, match=f"sweep={refused}: .*{told}"):
            tracking.read_sweep(uri, refused)
    with pytest.raises(ConfigError, match="sweep=abcdef: must name one sweep, abcdef01 and abcdef02 begin so"):
        tracking._the_one("abcdef", ["abcdef01", "12345678", "abcdef02"], uri)


def test_read_sweep_makes_no_store(tmp_path):
    with pytest.raises(ConfigError, match="nothing has been measured here yet"):
        tracking.read_sweep(f"sqlite:///{tmp_path}/none.db")
    assert not list(tmp_path.iterdir())


def test_a_store_that_cannot_be_opened(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(ConfigError, match="tracking.uri=sqlite.*: cannot be opened"):
        tracking.open_store(tracking.Tracking(f"sqlite:///{tmp_path}/file/mlflow.db", "acctax", None, False))


def test_the_environment_names_the_store(monkeypatch, uri):
    monkeypatch.setenv("MLFLOW_TRACKING_URI", uri)
    assert tracking.open_store(tracking.Tracking(None, "acctax", None, False)).uri == uri


def test_a_finished_cell_is_found_again(uri, sweep, compose, finish, make_record):
    cell = compose("K=2")
    run_id = finish(sweep, cell)
    assert sweep.find_finished(cell, {}) == (run_id, make_record(cell))
    assert sweep.find_finished(compose("K=3"), {}) is None
    copy = sweep.start_cell(cell, "K=2", origin=run_id)
    sweep.log_record(copy, make_record(cell))
    sweep.end_cell(copy, "K=2 ACCEPT", {}, "ACCEPT", "why")
    assert _sweep(uri).find_finished(cell, {})[0] == run_id  # the first measurement, not its copy


def test_other_kernels_or_threads_are_measured_anew(uri, sweep, compose, finish):
    cell = compose("K=2")
    finish(sweep, cell)
    assert _sweep(uri).find_finished(cell, {"kernels": "another"}) is None


def test_a_measurement_whose_clock_was_not_alone_is_made_anew(uri, sweep, compose, make_record):
    cell = compose("K=2")
    for rivals, found in (({"rivals": "4711"}, False), ({}, True)):
        run_id = sweep.start_cell(cell, "K=2")
        record = make_record(cell)
        sweep.log_record(run_id, replace(record, environment=record.environment | rivals))
        sweep.end_cell(run_id, "K=2 ACCEPT", {}, "ACCEPT", "why")
        assert (_sweep(uri).find_finished(cell, {}) is not None) == found


def test_an_invalid_measurement_is_made_anew(uri, sweep, compose, make_record):
    cell = compose("K=2")
    run_id = sweep.start_cell(cell, "K=2")
    sweep.log_record(run_id, make_record(cell))
    sweep.end_cell(run_id, "K=2 INVALID", {}, "INVALID", "a burst of noise")
    assert _sweep(uri).find_finished(cell, {}) is None


@pytest.mark.parametrize("location", ["/proc/x", "file:///proc/x"])
def test_artifacts_that_cannot_be_kept_are_refused_before_an_experiment_remembers_them(tmp_path, location):
    uri = f"sqlite:///{tmp_path}/new.db"
    with pytest.raises(ConfigError, match="tracking.artifacts=.*must be a folder that can be made"):
        tracking.open_store(tracking.Tracking(uri, "acctax", location, False))
    assert not (tmp_path / "new.db").exists()


def test_processes_that_open_a_new_store_at_once_all_get_it(tmp_path):
    code = "from acctax.tracking import *; open_store(Tracking('sqlite:///new.db', 'acctax', None, False))"
    started = [subprocess.Popen([sys.executable, "-c", code], cwd=tmp_path, stderr=subprocess.PIPE) for _ in range(3)]
    assert [process.wait() for process in started] == [0, 0, 0]


@pytest.mark.parametrize("environment", [{"hardware": "another"}, {"commit": "def"}, {"commit": "abc-dirty"}])
def test_other_hardware_or_code_is_measured_anew(uri, sweep, compose, environment, finish):
    cell = compose("K=2")
    finish(sweep, cell)
    assert _sweep(uri, **environment).find_finished(cell, {}) is None


def test_a_broken_cell_names_its_reason(uri, sweep, compose):
    run_id = sweep.start_cell(compose(), "K=3")
    sweep.break_cell(run_id, "x" * 10_000, "Traceback …")
    run = MlflowClient(uri).get_run(run_id)
    assert run.info.status == "FAILED" and len(run.data.tags["reason"]) == tracking.LONGEST_TEXT


def test_runs_of_a_dead_process_are_closed(uri, sweep, compose):
    child = sweep.start_cell(compose(), "K=3")
    client = MlflowClient(uri)
    _sweep(uri)
    assert client.get_run(child).info.status == "RUNNING"  # this process lives
    assert _sweep(uri).rivals() == set()  # and is no rival of itself
    dead = subprocess.Popen([sys.executable, "-c", ""])
    dead.wait()
    for run_id in (sweep.run_id, child):
        client.set_tag(run_id, "pid", str(dead.pid))
    _sweep(uri)
    assert {client.get_run(run_id).info.status for run_id in (sweep.run_id, child)} == {"KILLED"}
    assert os.getpid() != dead.pid


def test_another_process_that_measures_is_a_rival(uri, sweep, compose):
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as other:
        for run_id in (sweep.run_id, sweep.start_cell(compose(), "K=3")):
            MlflowClient(uri).set_tag(run_id, "pid", str(other.pid))
        assert _sweep(uri).rivals() == {other.pid}
        other.stdin.close()


def test_what_was_verified_and_what_ended_it_come_back(uri, sweep, compose, make_record):
    cell = compose("K=2")
    checked = [Lossless("reference", "p0", 3), Lossless("candidate", "p0", 2, 1, 0.5)]
    record = replace(make_record(cell), losslessness=checked, looks=3, stopped_because="decided at look 2 of 3")
    run_id = sweep.start_cell(cell, "K=2")
    sweep.log_record(run_id, record)
    sweep.end_cell(run_id, "K=2 ACCEPT", {}, "ACCEPT", "why")
    assert tracking.read_sweep(uri)[0].records == [record]


def test_a_record_of_before_is_read(make_record, compose):
    record = make_record(compose("K=2"))
    new = ("same_context", "losslessness", "looks", "stopped_because")
    raw = {name: value for name, value in json.loads(record.to_json()).items() if name not in new}
    assert Record.from_json(json.dumps(raw)) == record


def test_levers_are_kept_on_the_sweep(uri, sweep):
    along = Along([0.9], [0.8])
    scored = Scored("p0", 9, 0.1, 0.01, 8, 12.0, 13.0, 8, along, along)
    levers = [Lever("o", ["*.o_proj"], {"o": 1.0}, {"o": 1.0, "drafter": 2.0}, [scored]),
              Lever("kv cache", [], {"kv": 1.0}, {"kv": 1.0}, [])]  # fmt: skip
    assert sweep._store.read_levers(sweep.run_id) == []
    sweep.store_levers(levers)
    assert sweep._store.read_levers(sweep.run_id) == levers


def test_report_files_are_kept_on_the_sweep(uri, sweep, tmp_path):
    (tmp_path / "report.md").write_text("# report")
    sweep.store_report([tmp_path / "report.md"], "**it pays**")
    assert MlflowClient(uri).get_run(sweep.run_id).data.tags["mlflow.note.content"] == "**it pays**"
    assert [file.path for file in MlflowClient(uri).list_artifacts(sweep.run_id, "report")] == ["report/report.md"]
