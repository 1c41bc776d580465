"""Draft heads: a block that reads the target's hidden states, loaded from the checkpoints that are published of them.

A family is one reader, in the file of its layout; each makes itself known to `family`.
"""

from acctax.draft.heads import deepseek, eagle1, eagle3, mimo, qwen, speculators  # noqa: F401
