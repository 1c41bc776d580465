"""scripts/gpu_check.sh where there is no GPU: the same steps on tiny shapes, and what would need one is named."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

SCRIPTS = Path(__file__).parents[1] / "scripts"


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU: run the script itself")
def test_without_a_gpu_the_path_runs_and_the_rest_is_named(tmp_path):
    done = subprocess.run(
        [SCRIPTS / "gpu_check.sh", "", tmp_path], capture_output=True, text=True,
        env=os.environ | {"PYTHON": sys.executable},
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    summary = json.loads((tmp_path / "summary.json").read_text())
    codes = {step["step"]: step["code"] for step in summary["steps"]}
    assert codes == {"equality": "0", "random_llama": "0"} | dict.fromkeys(
        ["build", "kernels", "ops", "memcheck", "racecheck"], "no GPU"
    )
    assert "it would run: compute-sanitizer" in done.stdout
    assert summary["figures"]["speed/tok_s"] > 0 and len(summary["bars"]) == 4
    assert '"differing": []' in (tmp_path / "logs" / "equality.log").read_text()


def test_a_step_that_fails_fails_the_whole(tmp_path):
    (tmp_path / "steps.tsv").write_text("build\t0\t3\tnvcc\nops\t1\t5\tpytest\n")
    done = subprocess.run([sys.executable, SCRIPTS / "gpu_summary.py", tmp_path], capture_output=True, text=True)
    assert done.returncode == 1 and "| ops | 1 | 5 |" in (tmp_path / "summary.md").read_text()
