"""Numbers in, numbers out: records become rows with intervals and verdicts. Never imports torch."""

from acctax.analyze.rows import Row, analyze
from acctax.analyze.sweep import Sweep, sweep
from acctax.analyze.verdicts import Rules

__all__ = ["Row", "Rules", "Sweep", "analyze", "sweep"]
