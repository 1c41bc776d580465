"""The cells that could not be measured, and why."""

from collections.abc import Sequence

from acctax.record import Failure
from acctax.report.tables.table import Table


def failed(failures: Sequence[Failure]) -> Table | None:
    if not failures:
        return None
    return Table("failed", "Failed cells", ("cell", "reason"), tuple(((f.name, f.reason),) for f in failures))
