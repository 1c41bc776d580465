"""The command from end to end: what it refuses, what a sweep leaves in MLflow, how it ends."""

import json
import re
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest
from mlflow import MlflowClient

from acctax import environment
from acctax.errors import ConfigError
from acctax.paths import conf_dir
from acctax.sweep import PROGRESS

OPTIONS = sorted(
    (folder.name, file.stem) for folder in conf_dir().iterdir() if folder.is_dir() for file in folder.glob("*.yaml"))
NEEDS_A_PATH = {("target", "hf"), ("draft_source", "draft_model"), ("workload", "jsonl")}
TINY = ("target=random_llama", "device.kernels=reference")


@pytest.mark.parametrize("group, option", OPTIONS)
def test_every_option_composes(compose, group, option, monkeypatch):
    monkeypatch.setattr("torch.cuda.is_available", lambda: True)
    path = [f"{group}.path=somewhere"] if (group, option) in NEEDS_A_PATH else []
    assert compose(f"{group}={option}", *path).choices()


@pytest.mark.parametrize("option", sorted(file.stem for file in (conf_dir() / "target_quant").glob("*.yaml")))
def test_every_recipe_is_a_drafter_quant_too(compose, option):
    cell = compose(f"target_quant={option}", f"drafter_quant={option}")
    assert cell.drafter_quant == cell.target_quant and cell.target_quant.name == option


def test_help_shows_groups_options_and_fields(cli):
    shown = cli("--help")
    assert shown.code == 0
    assert "draft_source: draft_model, eagle, mtp, ngram, none, self" in shown.out and "\nK: 3\n" in shown.out


def test_the_composed_configuration_can_be_seen(cli):
    shown = cli("--cfg", "job", "K=5")
    assert shown.code == 0 and shown.out.startswith("K: 5\n")


def test_help_needs_neither_torch_nor_mlflow():
    code = "import sys; sys.argv[1:] = ['--help']; import acctax.__main__ as a\n" \
           "try: a.main()\nexcept SystemExit: pass\nprint({'torch', 'mlflow', 'transformers'} & set(sys.modules))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout.endswith("set()\n")


@pytest.mark.parametrize("arguments, line", [
    (["target_quant=nvpf4"], "target_quant=nvpf4: no such option, did you mean nvfp4?, only bf16, fp8, "),
    (["target_quant=bf16,nvpf4"], "target_quant=nvpf4: no such option, did you mean nvfp4?, only bf16, fp8, "),
    (["target=3"], "target=3: no such option, only gemma3_270m, hf, random_llama, smollm2_135m"),
    (["targt=hf", "K=1,2"], "targt=hf: no such field, did you mean target?, only target, target_quant, "),
    (["decoding.temp=3"], "decoding.temp=3: no such field, did you mean temperature?, only name, temperature, top_k"),
    (["+foo=1"], "foo=1: no such field, only target, "),
    (["+K=1"], "K=1: there is such a field already, leave the + out"),
    (["K=[1"], "K=[1: cannot be read, no viable alternative at input '[1'"),
    (["decoding"], "decoding=: cannot be read, missing EQUAL at '<EOF>'"),
    (["K=interval(1,3)"], "command line=K=interval(1,3): BasicSweeper does not support sweep type : INTERVAL_SWEEP"),
    (["workload.path=${oops}"], "workload.path=${oops}: Interpolation key 'oops' not found"),
    (["hydra/launcher=joblib"], "hydra/launcher=joblib: no such option, only basic"),
    (["K=1,-1"], "K=-1: must be 0 (plain decoding) or above"),
    (["draft_source=none", "K=1"], "K=1: must be 0 with draft_source=none"),
    (["seed=99999999999999999999"], "seed=99999999999999999999: must lie in 0 to"),
    (["K=1,1"], "cell=target=smollm2_135m target_quant=bf16"),
    (["measure.prompts=3,4"], "cell=target=smollm2_135m target_quant=bf16"),
    (["device.threads=100000"], "device.threads=100000: must lie in 1 to"),
    (["hydra.sweep.dir=/proc/x"], "hydra.sweep.dir=/proc/x: must be a folder that can be made"),
])
def test_a_command_line_that_cannot_run_is_one_line(cli, fake_work, arguments, line):
    _refused(cli(*arguments), line)
    assert not fake_work.measured


def _refused(outcome, line: str) -> None:
    assert outcome.code == 2 and outcome.out == ""
    assert outcome.err.startswith(f"acctax: error: {line}") and outcome.err.count("\n") == 1
    assert not list(Path.cwd().iterdir())  # no store, no multirun folder


def test_a_failed_preflight_leaves_no_trace(cli, fake_work):
    def preflight(cell):
        if cell.K == 2:
            raise ConfigError("K", 2, "too many for a test")

    fake_work.preflight = preflight
    _refused(cli("K=1,2"), "K=2: too many for a test")
    assert not fake_work.measured


@pytest.fixture
def prompts(tmp_path_factory):
    def write(*lines: str) -> list[str]:
        file = tmp_path_factory.mktemp("workload") / "prompts.jsonl"
        file.write_text("".join(f"{line}\n" for line in lines))
        return ["workload=jsonl", f"workload.path={file}"]

    return write


def _turn(text: str) -> str:
    return json.dumps({"id": "1", "category": "test", "turns": [text]})


def test_K_beyond_the_context(cli):
    _refused(cli(*TINY, "K=600"), "K=600: must be")


def test_a_group_that_does_not_divide(cli):
    rules = 'target_quant.rules=[{pattern: "*.q_proj", format: int4, group: 48}]'
    outcome = cli(*TINY, rules)
    _refused(outcome, "")
    assert "48" in outcome.err and "64" in outcome.err


def test_a_missing_model_file(cli, tmp_path_factory):
    _refused(cli("target=hf", "target.path=/no/such/model"), "target.path=/no/such/model: ")
    cache = f"target.cache_dir={tmp_path_factory.mktemp('cache')}"  # without a checkpoint converted before
    _refused(cli("target.package=no_such_package", cache), "target.package=no_such_package: ")


def test_a_truncated_gguf(cli, tmp_path_factory, monkeypatch):
    folder = tmp_path_factory.mktemp("packages")
    package = folder / "broken_gguf"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "model.gguf").write_bytes(b"GGUF\x03\x00\x00\x00")
    monkeypatch.syspath_prepend(folder)
    cache = tmp_path_factory.mktemp("cache")
    _refused(cli("target.package=broken_gguf", "target.file=model.gguf", f"target.cache_dir={cache}"), "target.file=")


def test_a_cache_that_cannot_be_written(cli, tmp_path_factory):
    file = tmp_path_factory.mktemp("cache") / "file"
    file.touch()
    _refused(cli(f"target.cache_dir={file}/below"), f"target.cache_dir={file}/below: must be a folder")


def test_a_draft_model_with_another_vocabulary(cli, tmp_path_factory):
    from tokenizers import Tokenizer, models
    from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

    folder = tmp_path_factory.mktemp("drafter")
    size = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 1, "num_attention_heads": 2}
    config = LlamaConfig(vocab_size=99, **size)
    LlamaForCausalLM(config).save_pretrained(folder)
    words = Tokenizer(models.WordLevel({f"word{i}": i for i in range(99)}, unk_token="word0"))
    PreTrainedTokenizerFast(tokenizer_object=words).save_pretrained(folder)
    outcome = cli(*TINY, "draft_source=draft_model", f"draft_source.path={folder}")
    _refused(outcome, f"draft_source.path={folder}: must have the vocabulary of the target")


def test_a_prompt_longer_than_the_context(cli, prompts):
    _refused(cli(*TINY, *prompts(_turn("word " * 600))), "workload")


def test_an_empty_workload(cli, prompts):
    _refused(cli(*TINY, *prompts()), "workload.path=")


def test_a_malformed_line_is_named(cli, prompts):
    outcome = cli(*TINY, *prompts(_turn("hello"), '{"turns": ['))
    _refused(outcome, "workload.path=")
    assert "line 2" in outcome.err


def _runs(kind: str) -> list:
    client = MlflowClient(f"sqlite:///{Path.cwd()}/mlruns/mlflow.db")
    experiment = client.get_experiment_by_name("acctax")
    return client.search_runs([experiment.experiment_id], f"tags.kind = '{kind}'",
                              order_by=["attributes.start_time ASC"])


def test_a_sweep_from_end_to_end(cli, fake_work, monkeypatch):
    monkeypatch.setattr(environment, "describe", lambda: {
        "hardware": "a machine", "host": "here", "versions": "v", "commit": "abc"})
    outcome = cli("target_quant=nvfp4_qkv", "-m", "K=1,2")
    assert outcome.code == 0
    assert re.sub(r"\d+ s\)", "", outcome.err).splitlines() == [  # progress, and no warning of any library
        "[1/2] nvfp4_qkv K=1", "nvfp4_qkv K=1: ACCEPT it pays (",
        "[2/2] nvfp4_qkv K=2", "nvfp4_qkv K=2: ACCEPT it pays (",
    ]  # fmt: skip
    assert [cell.K for cell in fake_work.measured] == [1, 2] == [r.choices["K"] for r in fake_work.reported]
    assert outcome.out == "the table\n"
    [parent], cells, [curve] = _runs("sweep"), _runs("cell"), _runs("curve")
    assert [run.info.status for run in (parent, *cells, curve)] == ["FINISHED"] * 4
    assert parent.data.tags["rerun"] == "python -m acctax target_quant=nvfp4_qkv K=1,2"
    assert [run.data.tags["rerun"] for run in cells] == [
        f"python -m acctax target_quant=nvfp4_qkv K={K} tracking.reuse=false" for K in (1, 2)]
    assert [run.info.run_name for run in cells] == ["nvfp4_qkv K=1 ACCEPT", "nvfp4_qkv K=2 ACCEPT"]
    assert curve.info.run_name == "nvfp4_qkv over K"
    assert list(Path.cwd().glob("multirun/*/*/0/.hydra/config.yaml"))

    again = cli("target_quant=nvfp4_qkv", "K=2,3")  # 2 was measured, 3 was not
    assert again.code == 0 and [cell.K for cell in fake_work.measured] == [1, 2, 3]
    assert f"measured before, run {cells[1].info.run_id}" in again.err
    assert _runs("cell")[2].data.tags["origin"] == cells[1].info.run_id
    cli("target_quant=nvfp4_qkv", "K=2", "tracking.reuse=false")
    assert [cell.K for cell in fake_work.measured] == [1, 2, 3, 2]


@pytest.fixture
def store(cli, make_store):
    make_store(Path.cwd() / "mlruns")


def test_a_failed_cell_does_not_end_the_sweep(cli, store, fake_work):
    good = fake_work.measure

    def measure(cell):
        if cell.K == 2:
            raise MemoryError("no room\nfor K=2")
        return good(cell)

    fake_work.measure = measure
    outcome = cli("K=1,2,3")
    assert outcome.code == 1
    assert outcome.err.splitlines()[-1] == "acctax: failed: bf16 K=2: MemoryError: no room for K=2"
    assert [record.choices["K"] for record in fake_work.reported] == [1, 3]
    assert [run.info.status for run in _runs("cell")] == ["FINISHED", "FAILED", "FINISHED"]
    assert _runs("cell")[1].data.tags["reason"] == "MemoryError: no room for K=2"
    assert _runs("sweep")[0].info.status == "FAILED"


def test_levers_that_fail_leave_the_report(cli, store, fake_work, monkeypatch):
    monkeypatch.setattr(sys.modules["acctax.analyze.sweep"], "fastest", lambda rows: rows[1])

    def measure_levers(cell, record, progress):
        assert cell.K == record.choices["K"] == 2
        raise MemoryError("no room")

    monkeypatch.setattr(sys.modules["acctax.measure.levers"], "measure_levers", measure_levers)
    outcome = cli("K=1,2")
    assert outcome.code == 1 and "the table" in outcome.out
    assert outcome.err.endswith("failed: levers of the fastest candidate: MemoryError: no room\n")
    assert cli("K=1,2", "measure.levers=false").code == 0


def test_a_terminal_that_is_gone_costs_no_report(cli, store, fake_work, monkeypatch):
    """Whatever printing raises, the report is stored by then."""
    def refuse(measured, folder):
        raise BrokenPipeError

    monkeypatch.setattr(sys.modules["acctax.report"], "print_terminal", refuse)
    with pytest.raises(BrokenPipeError):
        cli("K=1")
    [run] = _runs("sweep")
    client = MlflowClient(f"sqlite:///{Path.cwd()}/mlruns/mlflow.db")
    assert run.data.tags["mlflow.note.content"] == "it pays"
    assert [file.path for file in client.list_artifacts(run.info.run_id, "report")] == ["report/report.md"]


def test_stdout_is_the_report_alone(cli, store, fake_work):
    outcome = cli("K=1,2")
    assert outcome.out == "the table\n" and "bf16 K=2: ACCEPT it pays" in outcome.err


def test_a_rival_on_the_machine_is_told(cli, store, fake_work, monkeypatch):
    from acctax import tracking

    came = iter([set(), {4711}, set(), set()])  # during the first cell, then it was gone
    monkeypatch.setattr(tracking.Sweep, "rivals", lambda self: next(came))
    cli("K=1,2")
    assert [record.environment.get("rivals") for record in fake_work.reported] == ["4711", None]
    store = tracking.open_store(tracking.Tracking(None, "acctax", None, reuse=True))
    kept = [store.read_record(run.info.run_id).environment.get("rivals") for run in _runs("cell")]
    assert kept == ["4711", None]


def test_an_interrupt_leaves_nothing_running(cli, store, fake_work):
    good = fake_work.measure

    def measure(cell):
        if cell.K == 2:
            raise KeyboardInterrupt
        return good(cell)

    fake_work.measure = measure
    outcome = cli("K=1,2,3")
    assert outcome.code == 130
    assert outcome.err.splitlines()[-1].startswith("acctax: interrupted, 1 of 3 cells are measured")
    assert [run.info.status for run in _runs("cell")] == ["FINISHED", "KILLED"]
    assert _runs("sweep")[0].info.status == "KILLED"
    assert [record.choices["K"] for record in fake_work.reported] == [1]


def test_an_interrupt_that_python_drops_ends_the_sweep_all_the_same(cli, store, fake_work):
    """As amid a garbage collection: what a signal raises there goes nowhere."""
    good = fake_work.measure

    def measure(cell):
        if cell.K == 2:
            with suppress(KeyboardInterrupt):
                signal.raise_signal(signal.SIGINT)
            with PROGRESS.get().phase("decode", total=1) as phase:
                phase.advance()
        return good(cell)

    fake_work.measure = measure
    assert cli("K=1,2,3").code == 130
    assert [run.info.status for run in _runs("cell")] == ["FINISHED", "KILLED"]
    fake_work.measure = good
    assert cli("K=1,2,3").code == 0
