"""scripts/gpu_check.sh without a GPU: the same steps on tiny shapes, and with stand-ins what it would do beside one."""

import importlib.util
import json
import os
import shutil
import subprocess
import sys
import tarfile
from itertools import pairwise
from pathlib import Path

import pytest
import torch

ROOT = Path(__file__).parents[1]
SCRIPTS = ROOT / "scripts"
GPU_ALONE = ["build", "ops", "kernels", "kernels_least", "verification", "memcheck", "racecheck"]


def run(*command: str | Path, **environment: str | Path) -> subprocess.CompletedProcess:
    return subprocess.run(command, capture_output=True, text=True, env=os.environ | environment)


def program(path: Path, text: str) -> None:
    path.write_text(f"#!/usr/bin/env bash\n{text}\n")
    path.chmod(0o755)


@pytest.fixture
def work(tmp_path) -> Path:
    """Where a run's steps have left nothing yet."""
    folder = tmp_path / "work"
    (folder / "logs").mkdir(parents=True)
    (folder / "steps.tsv").touch()
    return folder


def summarized(work: Path) -> tuple[int, dict, str]:
    """Exit code, summary.json and summary.md."""
    done = run(sys.executable, SCRIPTS / "gpu_summary.py", work, work.parent)
    assert not done.stderr
    return done.returncode, *(f((work.parent / name).read_text()) for f, name in
                              ((json.loads, "summary.json"), (str, "summary.md")))  # fmt: skip


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU: run the script itself")
def test_without_a_gpu_the_path_runs_and_the_rest_is_named(tmp_path):
    done = run(SCRIPTS / "gpu_check.sh", "", tmp_path, PYTHON=sys.executable)
    assert done.returncode == 0, done.stdout + done.stderr
    summary = json.loads((tmp_path / "summary.json").read_text())
    codes = {step["step"]: step["code"] for step in summary["steps"]}
    assert codes == {"equality": "0", "random_llama": "0"} | dict.fromkeys(GPU_ALONE, "no GPU")
    assert "it would run: " + sys.executable + " scripts/gpu_sanitizer.py memcheck" in done.stdout
    assert summary["figures"]["speed/tok_s"] > 0 and len(summary["bars"]) == 4
    assert {file.name for file in tmp_path.iterdir()} == {"summary.md", "summary.json", "logs.tar.gz"}
    with tarfile.open(tmp_path / "logs.tar.gz") as logs:
        assert b'"differing": []' in logs.extractfile("./logs/equality.log").read()
        assert "./sweep/report.html" in logs.getnames()


def test_beside_a_gpu_every_step_runs_and_leaves_the_later_ones_their_time(tmp_path):
    """Stand-ins: a python that only claims to have a GPU, and a timeout that notes its limits."""
    program(tmp_path / "python", f"""case "$*" in
        *cuda.is_available*) echo 1 ;;
        *gpu_summary.py*) exec {sys.executable} "$@" ;;
        *gpu_equality.py*) echo "nf4: 3 of 12 texts equal"; exit 1 ;;
        *gpu_sanitizer.py*) echo "not available here: Device not supported"; exit 77 ;;
    esac""")  # fmt: skip
    program(tmp_path / "timeout", f'echo "$3" >>{tmp_path}/limits; shift 3; exec "$@"')
    done = run(SCRIPTS / "gpu_check.sh", "", tmp_path / "out", PYTHON=tmp_path / "python",
               PATH=f"{tmp_path}:{os.environ['PATH']}")  # fmt: skip
    assert done.returncode == 1, done.stdout + done.stderr
    summary = json.loads((tmp_path / "out" / "summary.json").read_text())
    codes = {step["step"]: step["code"] for step in summary["steps"]}
    assert codes == dict.fromkeys(GPU_ALONE, "0") | {
        "random_llama": "0", "equality": "1", "memcheck": "not available", "racecheck": "not available"
    }  # fmt: skip
    assert "equality, its last words:\n```\nnf4: 3 of 12 texts equal\n```" in done.stdout
    limits = [int(line) for line in (tmp_path / "limits").read_text().split()]
    assert len(limits) == 9 and limits[0] >= 50 and limits[-1] < 480
    # None of them took time: a step may take as much more than the one before it as had been kept for it
    assert all(limit - before >= 15 for before, limit in pairwise(limits))
    with tarfile.open(tmp_path / "out" / "logs.tar.gz") as logs:
        assert {"./logs/nvidia-smi.log", "./logs/racecheck.log"} <= set(logs.getnames())


def test_a_gpu_that_torch_does_not_see_is_an_error(tmp_path):
    program(tmp_path / "nvidia-smi", "echo 'GPU 0: NVIDIA H200'")
    program(tmp_path / "python", """case "$*" in
        *is_available*) echo 0 ;;
        *init*) echo 'RuntimeError: driver too old' >&2 ;;
    esac""")
    done = run(SCRIPTS / "gpu_check.sh", "", tmp_path / "out", PYTHON=tmp_path / "python",
               PATH=f"{tmp_path}:{os.environ['PATH']}")  # fmt: skip
    assert done.returncode == 1
    assert done.stdout.splitlines()[-1] == "RuntimeError: driver too old" and "does not see it" in done.stdout


def test_a_step_that_fails_fails_the_whole_and_its_last_words_are_told(work):
    (work / "steps.tsv").write_text("build\t0\t3\tnvcc\nmemcheck\tnot available\t1\tpython\n")
    (work / "logs" / "memcheck.log").write_text("not available here: Device not supported\n")
    code, summary, text = summarized(work)
    assert code == 0 and "Device not supported" in text
    with (work / "steps.tsv").open("a") as file:
        file.write("ops\t1\t5\tpytest\n")
    (work / "logs" / "ops.log").write_text("\n".join(f"line {i}" for i in range(50)))
    code, summary, text = summarized(work)
    assert code == 1 and "| ops | 1 | 5 |" in text and "line 49" in text and "line 9\n" not in text
    assert summary["steps"][2]["said"][-1] == "line 49" and "said" not in summary["steps"][0]


def test_a_step_without_time_fails_the_whole(work):
    (work / "steps.tsv").write_text("racecheck\tno time left\t0\tpython\n")
    assert summarized(work)[0] == 1


def test_figures_stand_beside_their_bars_met_or_missed(work):
    def row(name: str, share: float, five: float, sixteen: float) -> dict:
        ratios = {"2": 1.0, "5": five, "8": 1.1, "16": sixteen}
        return {"format": name, "us": 9.0, "GBs": 4000.0, "share": share, "ratios": ratios}

    rows = [row("fp8", 0.84, 1.10, 1.31), row("nvfp4", 0.70, 1.11, 1.3), row("torch bf16", 0.5, 1.0, 1.0)]
    (work / "kernels.json").write_text(json.dumps({"shape": "4096x4096", "hardware": "H200", "rows": rows}))
    laws = [{"law": "greedy", "logits": "flat", "us": 12.3}, {"law": "T=1", "logits": "flat", "us": 31}]
    (work / "verification.json").write_text(json.dumps({"rows": laws}))
    (work / "sweep").mkdir()
    (work / "sweep" / "report.csv").write_text(
        "bytes/bandwidth_GBs,bytes/BW_eff_GBs_ref,time/T1_ms,time/T1_ms_ref,time/T_verify_ms,time/T_verify_ms_ref,"
        "time/D_ms,time/C_ms\n4000,3300,1,4,1.2,4.2,0.8,2.05\n"
    )
    code, summary, text = summarized(work)
    assert code == 0
    assert [(bar["figure"], bar["bar"], bar["met"]) for bar in summary["bars"]] == [
        ("fp8 4096x4096, share of copy bandwidth at M=1", "≥ 0.85", False),
        ("fp8 4096x4096, T(5)/T(1)", "≤ 1.10", True),
        ("fp8 4096x4096, T(16)/T(1)", "≤ 1.30", False),
        ("nvfp4 4096x4096, share of copy bandwidth at M=1", "≥ 0.70", True),
        ("nvfp4 4096x4096, T(5)/T(1)", "≤ 1.10", False),
        ("nvfp4 4096x4096, T(16)/T(1)", "≤ 1.30", True),
        ("verification, greedy, flat, µs", "≤ 30.00", True),
        ("verification, T=1, flat, µs", "≤ 30.00", False),
        ("plain decoding as loaded, share of copy bandwidth", "≥ 0.80", True),
        ("T(K+1)/T(1), as loaded", "≤ 1.10", True),
        ("T(K+1)/T(1), quantized", "≤ 1.10", False),
        ("cycle outside target and drafter passes", "≤ 0.05", True),
    ]
    assert "| nvfp4 4096x4096, T(5)/T(1) | 1.110 | ≤ 1.10 | MISSED |" in text
    assert "| verification, greedy, flat, µs | 12.300 | ≤ 30.00 | met |" in text
    assert summary["kernels"][0]["rows"][2]["format"] == "torch bf16"


def test_what_kernels_py_writes_has_bars(work):
    done = run(sys.executable, ROOT / "benchmarks" / "kernels.py", "--device", "cpu", "--shape", "2048x1024",
               "--rounds", "1", "--threads", "1", "--formats", "bf16,nvfp4",
               "--json", work / "kernels.json")  # fmt: skip
    assert done.returncode == 0, done.stderr
    _, summary, _ = summarized(work)
    assert [bar["figure"].split(",")[0] for bar in summary["bars"]] == ["bf16 2048x1024"] * 3 + ["nvfp4 2048x1024"] * 3
    assert all(bar["value"] > 0 for bar in summary["bars"])


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_kernels_py_says_in_one_line_that_there_is_no_gpu():
    done = run(sys.executable, ROOT / "benchmarks" / "kernels.py", "--device", "cuda")
    assert done.returncode == 1 and done.stderr.count("\n") == 1 and "no GPU" in done.stderr


CLEAN = "echo '========= ERROR SUMMARY: 0 errors'"
HAZARD = "echo '========= RACECHECK SUMMARY: 1 hazard displayed (1 error, 0 warnings)'"
PROBED = f'[[ "$*" == *pytest* ]] || {{ {CLEAN}; exit 0; }}\n'


@pytest.mark.parametrize(
    ("sanitizer", "code", "last"),
    [
        ("echo '========= COMPUTE-SANITIZER'; echo '========= Error: Device not supported.'; exit 1", 77,
         "not available here: Error: Device not supported."),
        ("echo 'a warning, not its'; echo '========= Unable to attach'; echo 4.0", 77,
         "not available here: Unable to attach"),
        (f"{CLEAN}; echo 'CUDA driver version is insufficient' >&2; exit 1", 77,
         "not available here: CUDA driver version is insufficient"),
        (f"{PROBED}{CLEAN}", 0, "memcheck: the tests ended with 0; errors or hazards: 0"),
        (f"{PROBED}echo '========= ERROR SUMMARY: 3 errors'; exit 1", 1,
         "memcheck: the tests ended with 1; errors or hazards: 3"),
        (f"{PROBED}{HAZARD}", 1, "memcheck: the tests ended with 0; errors or hazards: 1"),
        (f"{PROBED}{CLEAN}; exit 2", 1, "memcheck: the tests ended with 2; errors or hazards: 0"),
        (PROBED, 1, "memcheck: the tests ended with 0; errors or hazards: no summary"),
    ],
    ids=["no device", "no attaching", "old driver", "clean", "errors", "hazard", "a test fails", "cut off"],
)  # fmt: skip
def test_what_the_sanitizer_says_decides(tmp_path, sanitizer, code, last):
    program(tmp_path / "compute-sanitizer", sanitizer)
    done = run(sys.executable, SCRIPTS / "gpu_sanitizer.py", "memcheck", PATH=f"{tmp_path}:{os.environ['PATH']}")
    assert (done.returncode, done.stdout.splitlines()[-1]) == (code, last), done.stderr


def sanitizer_module():
    spec = importlib.util.spec_from_file_location("gpu_sanitizer", SCRIPTS / "gpu_sanitizer.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_a_sanitizer_that_hangs_is_not_available(tmp_path, monkeypatch):
    module = sanitizer_module()
    monkeypatch.setattr(module, "PROBE_SECONDS", 0.2)
    program(tmp_path / "compute-sanitizer", "sleep 60")
    assert "did not end" in module.obstacle([str(tmp_path / "compute-sanitizer")])


def test_it_is_found_beside_cuda_or_named_as_missing(tmp_path, monkeypatch, capsys):
    module = sanitizer_module()
    (tmp_path / "bin").mkdir()
    program(tmp_path / "bin" / "compute-sanitizer", CLEAN)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("CUDA_HOME", str(tmp_path))
    assert module.find() == str(tmp_path / "bin" / "compute-sanitizer")
    monkeypatch.setattr(shutil, "which", lambda *arguments, **named: None)
    monkeypatch.setattr(sys, "argv", ["gpu_sanitizer.py", "racecheck"])
    with pytest.raises(SystemExit) as stop:
        module.main()
    assert stop.value.code == module.UNAVAILABLE and "no compute-sanitizer" in capsys.readouterr().out
