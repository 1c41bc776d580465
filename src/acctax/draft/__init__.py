"""Draft sources: whatever proposes tokens. One file each, holding the choice in conf/ and the source it builds."""

from acctax.draft import draft_model, eagle, mtp, ngram, none, self_draft  # noqa: F401  each is an option of the config
