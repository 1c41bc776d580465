"""The CUDA ops' tests on a GPU with every access watched by one of compute-sanitizer's tools, where it works at all.

    python scripts/gpu_sanitizer.py memcheck|racecheck

Exits with 1 where the tool found something or a test failed, with 77 where a trivial program cannot be watched: there
may be no compute-sanitizer, and some containers do not let it attach. The last line says which it was.
"""

import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

UNAVAILABLE = 77
PROBE = "import torch; print(torch.ones(4, device='cuda').add_(1).sum().item())"
PROBE_SECONDS = 30
# A launch takes milliseconds: each op once, and no tests that launch it for the sake of its bits or of what it refuses
TESTS = "(cuda-1 or cuda-9) and not every_M and not refused"
# Calls into CUDA that fail are torch's to report: it tries some that may
OPTIONS = {"memcheck": ["--report-api-errors", "no"], "racecheck": []}
# An allocator that hands out pieces of large blocks would hide reads beyond the end of a tensor
ENVIRONMENT = os.environ | {"PYTORCH_NO_CUDA_MEMORY_CACHING": "1"}


def find() -> str | None:
    places = os.environ.get("PATH", ""), f"{os.environ.get('CUDA_HOME', '')}/bin", "/usr/local/cuda/bin"
    return shutil.which("compute-sanitizer", path=os.pathsep.join(places))


def findings(said: str) -> int | None:
    """Errors or hazards by the tool's own summaries, None where it came to none."""
    counts = re.findall(r"SUMMARY: (\d+) (?:error|hazard)", said)
    return sum(map(int, counts)) if counts else None


def obstacle(watch: list[str]) -> str | None:
    """Why a trivial program cannot be watched."""
    probe = subprocess.Popen([*watch, sys.executable, "-c", PROBE], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                             text=True, env=ENVIRONMENT, start_new_session=True)  # fmt: skip
    try:
        said = probe.communicate(timeout=PROBE_SECONDS)[0]
    except subprocess.TimeoutExpired:
        return f"a trivial program did not end in {PROBE_SECONDS} s"
    finally:
        if probe.poll() is None:
            os.killpg(probe.pid, signal.SIGKILL)  # the program too
    print(said, flush=True)
    if probe.returncode == 0 and findings(said) == 0:
        return None
    lines = [line for line in said.splitlines() if "SUMMARY" not in line]
    complaints = [line for line in lines if re.search("error|not |unable|fail|insufficient", line, re.IGNORECASE)]
    complaints.sort(key=lambda line: not line.startswith("="))  # the tool's own come first
    return complaints[0].strip("= ") if complaints else f"exit code {probe.returncode}"


def main() -> None:
    tool = sys.argv[1]
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # a time limit ends the probe too
    sanitizer = find()
    if sanitizer is None:
        print("not available here: no compute-sanitizer on the PATH, in CUDA_HOME/bin or in /usr/local/cuda/bin")
        sys.exit(UNAVAILABLE)
    watch = [sanitizer, "--tool", tool, *OPTIONS[tool], "--error-exitcode", "1"]
    if reason := obstacle(watch):
        print(f"not available here: {reason}")
        sys.exit(UNAVAILABLE)
    tests = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-k", TESTS, "tests/ops/cuda"]
    run = subprocess.Popen([*watch, *tests], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                           env=ENVIRONMENT, cwd=Path(__file__).parents[1])  # fmt: skip
    lines = []
    for line in run.stdout:  # as it comes: the run may be cut off
        print(line, end="", flush=True)
        lines.append(line)
    code, found = run.wait(), findings("".join(lines))
    print(f"{tool}: the tests ended with {code}; errors or hazards: {'no summary' if found is None else found}")
    sys.exit(code != 0 or found != 0)


if __name__ == "__main__":
    main()
