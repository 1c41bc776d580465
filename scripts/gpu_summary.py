"""What scripts/gpu_check.sh found, as summary.md and summary.json: its steps, and the figures beside their bars.

    python scripts/gpu_summary.py FOLDER

Exits with 1 where a step failed or was left out for want of time.
"""

import csv
import json
import sys
from pathlib import Path

FIGURES = ("bytes/bandwidth_GBs", "bytes/peak_MB", "time/T1_ms", "time/T_verify_ms", "time/D_ms", "time/C_ms",
           "time/C_ar_ms", "bytes/BW_eff_GBs", "speed/tok_s", "speed/tok_s_ar", "speed/J_per_token",
           "accept/tau")  # fmt: skip


def steps(folder: Path) -> list[dict[str, str | int]]:
    lines = (folder / "steps.tsv").read_text().splitlines()
    named = (line.split("\t") for line in lines)
    return [{"step": name, "code": code, "seconds": int(seconds), "command": command}
            for name, code, seconds, command in named]  # fmt: skip


def cell(folder: Path) -> dict[str, float]:
    """Figures of the whole model, of the reference with the suffix _ref; none where it was not measured."""
    file = folder / "sweep" / "report.csv"
    if not file.is_file():
        return {}
    row = next(csv.DictReader(file.open()))
    return {name: float(row[name]) for figure in FIGURES for name in (figure, f"{figure}_ref") if row.get(name)}


def bars(found: dict[str, float]) -> list[tuple[str, float, str]]:
    """(figure, value, bar)"""
    if not found.keys() >= {"time/C_ms", "time/T1_ms_ref", "bytes/BW_eff_GBs_ref"}:
        return []
    outside = 1 - (found["time/T_verify_ms"] + found["time/D_ms"]) / found["time/C_ms"]
    return [
        ("plain decoding as loaded, share of copy bandwidth",
         found["bytes/BW_eff_GBs_ref"] / found["bytes/bandwidth_GBs"], "≥ 0.80"),
        ("T(K+1)/T(1), as loaded", found["time/T_verify_ms_ref"] / found["time/T1_ms_ref"], "≤ 1.10"),
        ("T(K+1)/T(1), quantized", found["time/T_verify_ms"] / found["time/T1_ms"], "≤ 1.10"),
        ("cycle outside target and drafter passes", outside, "≤ 0.05"),
    ]  # fmt: skip


def main() -> None:
    folder = Path(sys.argv[1])
    done, found = steps(folder), cell(folder)
    met = bars(found)
    named = [{"figure": name, "value": value, "bar": bar} for name, value, bar in met]
    (folder / "summary.json").write_text(json.dumps({"steps": done, "figures": found, "bars": named}, indent=1))
    lines = ["| step | exit code | s |", "| --- | --- | --- |"]
    lines += [f"| {each['step']} | {each['code']} | {each['seconds']} |" for each in done]
    lines += ["", "| figure | value | bar |", "| --- | --- | --- |"]
    lines += [f"| {name} | {value:.3f} | {bar} |" for name, value, bar in met]
    lines += [f"| {name} | {value:.4g} | |" for name, value in found.items()]
    for log in ("kernels", "equality"):
        if (file := folder / "logs" / f"{log}.log").is_file():
            lines += ["", "```", file.read_text().rstrip(), "```"]
    (folder / "summary.md").write_text("\n".join(lines) + "\n")
    print((folder / "summary.md").read_text())
    sys.exit(any(each["code"] not in ("0", "no GPU") for each in done))


if __name__ == "__main__":
    main()
