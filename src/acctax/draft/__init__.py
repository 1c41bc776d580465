"""Draft sources: whatever proposes tokens. One file each, holding the choice in conf/ and the source it builds."""

# each is an option of the config
from acctax.draft import draft_model, eagle, mtp, ngram, none, self_draft, synthetic  # noqa: F401
