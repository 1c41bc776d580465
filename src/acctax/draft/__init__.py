"""Draft sources: whatever proposes tokens. One file each."""

from acctax.draft import draft_model, ngram, none, self_draft  # noqa: F401  they register themselves
from acctax.draft.registry import build, check

__all__ = ["build", "check"]
