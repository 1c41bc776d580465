"""python -m acctax.report: the report of a measured sweep, made again from MLflow."""

import argparse
import math
import sys
from dataclasses import replace
from pathlib import Path

from acctax import report, tracking
from acctax.errors import ConfigError
from acctax.report.findings import Findings
from acctax.report.printing import put


def _number(text: str, most: float, allowed: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 <= value <= most or math.isinf(value):
        raise argparse.ArgumentTypeError(f"{text}: must be {allowed}")
    return value


def _share(text: str) -> float:
    return _number(text, 1, "a share from 0 to 1: 0.5 means 50 %")


def _margin(text: str) -> float:
    return _number(text, math.inf, "a number from 0 on: 0.02 means 2 %")


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser("python -m acctax.report", description=__doc__.partition(": ")[2])
    parser.add_argument(
        "--sweep", default="latest", metavar="RUN_ID",
        help="a parent run of MLflow, 6 or more of its first letters, or latest (default)"
    )
    parser.add_argument(
        "--uri", help="MLflow's store (default: MLFLOW_TRACKING_URI, else ./mlruns/mlflow.db)"
    )
    parser.add_argument("--experiment", default="acctax", help="of MLflow (default: %(default)s)")
    parser.add_argument(
        "--out", type=Path, metavar="FOLDER", help="write report.html, .md, .tex, .csv and pictures there"
    )
    parser.add_argument("--tax-threshold", type=_share, metavar="SHARE",
                        help="reject above this share of the byte win (default: the sweep's)")  # fmt: skip
    parser.add_argument("--margin", type=_margin, help="a win is W_spec above 1 + margin (default: the sweep's)")
    chosen = parser.parse_args(arguments)
    sweep = None if chosen.sweep == "latest" else chosen.sweep
    try:
        measured, rules = tracking.read_sweep(chosen.uri, sweep, chosen.experiment)
        if chosen.tax_threshold is not None:
            rules = replace(rules, tax_threshold=chosen.tax_threshold)
        if chosen.margin is not None:
            rules = replace(rules, margin=chosen.margin)
        findings = report.read(measured, rules)
        written = _write(findings, chosen.out) if chosen.out else []
    except ConfigError as error:
        print(error, file=sys.stderr)
        return 2
    report.print_terminal(findings)
    for file in written:
        put(str(file))
    return 0


def _write(findings: Findings, folder: Path) -> list[Path]:
    try:
        return report.write(findings, folder)
    except OSError as error:
        raise ConfigError("out", folder, f"must be a folder that can be written to ({error.strerror})") from error


if __name__ == "__main__":
    sys.exit(main())
