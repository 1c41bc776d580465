"""What scripts/gpu_check.sh found, as summary.md and summary.json: its steps, and the figures beside their bars.

    python scripts/gpu_summary.py WORK OUT

WORK holds steps.tsv, the steps' logs/ and what they wrote; what is not there yet is left out. Exits with 1 where a step
failed or was left out for want of time. A bar that is missed fails nothing.
"""

import csv
import json
import sys
from pathlib import Path

FIGURES = ("bytes/bandwidth_GBs", "bytes/peak_MB", "time/T1_ms", "time/T_verify_ms", "time/D_ms", "time/C_ms",
           "time/C_ar_ms", "bytes/BW_eff_GBs", "speed/tok_s", "speed/tok_s_ar", "speed/J_per_token",
           "accept/tau")  # fmt: skip
FINE = ("0", "no GPU", "not available")  # codes of steps that did not fail
SHARES = dict.fromkeys(("bf16", "fp8", "int8"), 0.85) | dict.fromkeys(("int4", "nvfp4", "mxfp4", "nf4"), 0.70)
RATIOS = {"5": 1.10, "16": 1.30}  # M → T(M)/T(1)
VERIFICATION_US = 30


def steps(work: Path) -> list[dict[str, str | int]]:
    """The last words of a step are there where it did not end well."""
    found = []
    for line in (work / "steps.tsv").read_text().splitlines():
        name, code, seconds, command = line.split("\t")
        step = {"step": name, "code": code, "seconds": int(seconds), "command": command}
        log = work / "logs" / f"{name}.log"
        if code not in ("0", "no GPU") and log.is_file():
            step["said"] = log.read_text(errors="replace").splitlines()[-20:]
        found.append(step)
    return found


def cell(work: Path) -> dict[str, float]:
    """Figures of the whole model, of the reference with the suffix _ref; none where it was not measured."""
    file = work / "sweep" / "report.csv"
    if not file.is_file():
        return {}
    row = next(csv.DictReader(file.open()))
    return {name: float(row[name]) for figure in FIGURES for name in (figure, f"{figure}_ref") if row.get(name)}


def at_least(figure: str, value: float, bar: float) -> dict[str, str | float | bool]:
    return {"figure": figure, "value": value, "bar": f"≥ {bar:.2f}", "met": value >= bar}


def at_most(figure: str, value: float, bar: float) -> dict[str, str | float | bool]:
    return {"figure": figure, "value": value, "bar": f"≤ {bar:.2f}", "met": value <= bar}


def model_bars(found: dict[str, float]) -> list[dict]:
    if not found.keys() >= {"time/C_ms", "time/T1_ms_ref", "bytes/BW_eff_GBs_ref"}:
        return []
    outside = 1 - (found["time/T_verify_ms"] + found["time/D_ms"]) / found["time/C_ms"]
    return [
        at_least("plain decoding as loaded, share of copy bandwidth",
                 found["bytes/BW_eff_GBs_ref"] / found["bytes/bandwidth_GBs"], 0.80),
        at_most("T(K+1)/T(1), as loaded", found["time/T_verify_ms_ref"] / found["time/T1_ms_ref"], 1.10),
        at_most("T(K+1)/T(1), quantized", found["time/T_verify_ms"] / found["time/T1_ms"], 1.10),
        at_most("cycle outside target and drafter passes", outside, 0.05),
    ]  # fmt: skip


def kernel_bars(run: dict) -> list[dict]:
    """Of one matrix by benchmarks/kernels.py; its peers have none."""
    bars = []
    for row in run["rows"]:
        if row["format"] in SHARES:
            name = f"{row['format']} {run['shape']}"
            bars.append(at_least(f"{name}, share of copy bandwidth at M=1", row["share"], SHARES[row["format"]]))
            bars += [at_most(f"{name}, T({M})/T(1)", row["ratios"][M], most) for M, most in RATIOS.items()]
    return bars


def verification_bars(run: dict) -> list[dict]:
    """Of benchmarks/verification.py, rule by rule, of peaked and of flat logits."""
    return [at_most(f"verification, {row['law']}, {row['logits']}, µs", row["us"], VERIFICATION_US)
            for row in run["rows"]]  # fmt: skip


def main() -> None:
    work, out = map(Path, sys.argv[1:])
    done, found = steps(work), cell(work)
    kernels = [json.loads(file.read_text()) for file in sorted(work.glob("kernels*.json"))]
    verification = [json.loads(file.read_text()) for file in work.glob("verification.json")]
    bars = [*(bar for run in kernels for bar in kernel_bars(run)),
            *(bar for run in verification for bar in verification_bars(run)), *model_bars(found)]  # fmt: skip
    (out / "summary.json").write_text(json.dumps({"steps": done, "bars": bars, "figures": found, "kernels": kernels,
                                                  "verification": verification}, indent=1))  # fmt: skip
    lines = ["| step | exit code | s |", "| --- | --- | --- |"]
    lines += [f"| {each['step']} | {each['code']} | {each['seconds']} |" for each in done]
    for each in done:
        if "said" in each:
            lines += ["", f"{each['step']}, its last words:", "```", *each["said"], "```"]
    lines += ["", "| figure | value | bar | |", "| --- | --- | --- | --- |"]
    lines += [f"| {bar['figure']} | {bar['value']:.3f} | {bar['bar']} | {'met' if bar['met'] else 'MISSED'} |"
              for bar in bars]  # fmt: skip
    lines += [f"| {name} | {value:.4g} | | |" for name, value in found.items()]
    tables = [file for name in ("equality", "kernels*", "verification") for file in work.glob(f"logs/{name}.log")]
    for log in sorted(tables):
        lines += ["", "```", log.read_text(errors="replace").rstrip(), "```"]
    (out / "summary.md").write_text("\n".join(lines) + "\n")
    print((out / "summary.md").read_text())
    sys.exit(any(each["code"] not in FINE for each in done))


if __name__ == "__main__":
    main()
