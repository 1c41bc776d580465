"""python -m acctax.report: the report of a measured sweep, made again from MLflow."""

import argparse
import sys
from pathlib import Path

from acctax import report, tracking
from acctax.analyze import Rules
from acctax.errors import ConfigError


def main(arguments: list[str] | None = None) -> int:
    rules = Rules()
    parser = argparse.ArgumentParser("python -m acctax.report", description=__doc__.partition(": ")[2])
    parser.add_argument(
        "--sweep", default="latest", metavar="RUN_ID", help="a parent run of MLflow, or latest (default)"
    )
    parser.add_argument(
        "--uri", help="MLflow's store (default: MLFLOW_TRACKING_URI, else ./mlruns/mlflow.db)"
    )
    parser.add_argument(
        "--out", type=Path, metavar="FOLDER", help="write report.md, report.csv and sweep.png there"
    )
    parser.add_argument("--tax-threshold", type=float, default=rules.tax_threshold, metavar="SHARE",
                        help="reject above this share of the byte win (default: %(default)s)")  # fmt: skip
    parser.add_argument("--margin", type=float, default=rules.margin,
                        help="a win is W_spec above 1 + margin (default: %(default)s)")  # fmt: skip
    chosen = parser.parse_args(arguments)
    rules = Rules(chosen.tax_threshold, chosen.margin)
    try:
        records = tracking.read_sweep(chosen.uri, None if chosen.sweep == "latest" else chosen.sweep)
    except ConfigError as error:
        print(error, file=sys.stderr)
        return 1
    report.print_terminal(records, rules)
    if chosen.out:
        print(*report.write(records, rules, chosen.out), sep="\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
