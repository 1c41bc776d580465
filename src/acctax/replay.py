"""Published figures through the analysis and the report: nothing is measured, no model is needed."""

from collections.abc import Mapping
from pathlib import Path

from acctax import report
from acctax.analyze import sweep
from acctax.analyze.published import Published, read_published
from acctax.report.findings import Findings
from acctax.schema import convert


def replay(published: Mapping, folder: Path) -> None:
    """published: the fields of `Published`. Raises ConfigError where they are not."""
    findings = Findings(sweep([read_published(convert(Published, published, "published"))]))
    report.print_terminal(findings)
    report.write(findings, folder)
