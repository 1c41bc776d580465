"""How far a measurement repeats: the reference against itself, and one sweep measured twice.

    python benchmarks/repeatability.py floor [--runs 20] [override ...]
    python benchmarks/repeatability.py twice [override ...]       as experiment=quant_sweep

Overrides are the command line's. The noise floor is judged as any candidate is, though its label is REFERENCE.
"""

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

from acctax import report
from acctax.analyze import Rules, Sweep
from acctax.analyze.verdicts import Name, decide
from acctax.tracking import read_sweep


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("study", choices=("floor", "twice"))
    parser.add_argument("--runs", type=int, default=20, help="of the noise floor (default: %(default)s)")
    parser.add_argument("overrides", nargs="*", default=["measure=quick"])
    chosen = parser.parse_intermixed_args()
    with tempfile.TemporaryDirectory() as folder:
        if chosen.study == "floor":
            floor(chosen.runs, chosen.overrides, Path(folder))
        else:
            twice(chosen.overrides, Path(folder))


def floor(runs: int, overrides: list[str], folder: Path) -> None:
    decided = 0
    for run in range(runs):
        (row,) = measure(["target_quant=bf16", *overrides], folder).rows
        blind = decide(row.figures, Rules(), row.prompts, row.rounds)
        decided += blind.name != Name.UNDECIDED or row.verdict != Name.REFERENCE
        win, seen = row.estimate("speed/W_spec"), row.estimate("accept/tau_ratio")
        print(f"{run + 1:3}: {row.verdict}; as a candidate {blind.name}; W_spec {win:.4f}, A {seen:.4f}", flush=True)
    print(f"{decided} of {runs} runs say something else than that nothing changed")


def twice(overrides: list[str], folder: Path) -> None:
    sweeps = [measure(overrides, folder) for _ in range(2)]
    pairs = list(zip(*(sweep.rows for sweep in sweeps), strict=True))
    same = 0
    for a, b in pairs:
        same += a.verdict == b.verdict
        wins = " / ".join(f"{row.estimate('speed/W_spec'):.3f}" for row in (a, b))
        print(f"{a.choices['target_quant']:14} K={a.K}  {a.verdict:9} / {b.verdict:9}  W_spec {wins}")
    contradicting = sum({a.verdict, b.verdict} == {Name.ACCEPT, Name.REJECT} for a, b in pairs)
    print(f"{same} of {len(pairs)} verdicts the same, {contradicting} contradict each other")
    for name, sweep in zip(("first", "second"), sweeps):
        off = [f"{model} {sweep.median_residual(model):.1%}" for model in ("refined", "classic", "forecast")]
        print(f"{name}: predictions off in the median by {', '.join(off)}")


def measure(overrides: list[str], folder: Path) -> Sweep:
    """A sweep in a process of its own, none of its cells reused from an earlier one."""
    store = f"sqlite:///{folder}/mlflow.db"
    where = [f"tracking.uri={store}", f"hydra.sweep.dir={folder}/out"]
    command = [sys.executable, "-m", "acctax", *overrides, *where, "tracking.reuse=false", "measure.levers=false"]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        sys.exit(done.stderr)
    return report.read(*read_sweep(store)).sweep


if __name__ == "__main__":
    main()
