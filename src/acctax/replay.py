"""Published figures through the analysis and the report: nothing is measured, no model is needed."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from acctax import report
from acctax.analyze import sweep
from acctax.analyze.case_study import CaseStudy, read_case_study
from acctax.errors import ConfigError
from acctax.report.findings import Findings
from acctax.schema import convert


def check(choices: Sequence[str]) -> None:
    """choices: the command line's. Figures are replayed as they were published. Raises ConfigError for any choice."""
    for choice in choices:
        field, _, value = choice.lstrip("+~").partition("=")
        if field != "experiment":
            allowed = "must be left out, published figures are replayed as they are"
            raise ConfigError(field, value, f"{allowed} (hydra.sweeper.case_study.… changes them)")


def replay(study: Mapping, folder: Path) -> None:
    """study: the fields of `CaseStudy`. Raises ConfigError where they are not."""
    findings = Findings(sweep([read_case_study(convert(CaseStudy, study, "hydra.sweeper.case_study"))]))
    report.write(findings, folder)
    report.print_terminal(findings, folder)
