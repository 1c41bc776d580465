"""python -m acctax.report: the report of a measured sweep, made again from MLflow."""

import argparse
import math
import sys
from dataclasses import replace
from pathlib import Path

from acctax import report, tracking
from acctax.errors import ConfigError


def _positive(text: str) -> float:
    value = float(text)
    if not 0 <= value < math.inf:
        raise argparse.ArgumentTypeError(f"{text}: must be 0 or above")
    return value


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser("python -m acctax.report", description=__doc__.partition(": ")[2])
    parser.add_argument(
        "--sweep", default="latest", metavar="RUN_ID", help="a parent run of MLflow, or latest (default)"
    )
    parser.add_argument(
        "--uri", help="MLflow's store (default: MLFLOW_TRACKING_URI, else ./mlruns/mlflow.db)"
    )
    parser.add_argument("--experiment", default="acctax", help="of MLflow (default: %(default)s)")
    parser.add_argument(
        "--out", type=Path, metavar="FOLDER", help="write report.html, .md, .tex, .csv and pictures there"
    )
    parser.add_argument("--tax-threshold", type=_positive, metavar="SHARE",
                        help="reject above this share of the byte win (default: the sweep's)")  # fmt: skip
    parser.add_argument("--margin", type=_positive, help="a win is W_spec above 1 + margin (default: the sweep's)")
    chosen = parser.parse_args(arguments)
    sweep = None if chosen.sweep == "latest" else chosen.sweep
    try:
        measured, rules = tracking.read_sweep(chosen.uri, sweep, chosen.experiment)
    except ConfigError as error:
        print(error, file=sys.stderr)
        return 1
    if chosen.tax_threshold is not None:
        rules = replace(rules, tax_threshold=chosen.tax_threshold)
    if chosen.margin is not None:
        rules = replace(rules, margin=chosen.margin)
    findings = report.read(measured, rules)
    report.print_terminal(findings)
    if chosen.out:
        print(*report.write(findings, chosen.out), sep="\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
