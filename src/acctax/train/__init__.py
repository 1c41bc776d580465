"""Training a draft head: the target writes its own text, and a small head learns to run ahead of it."""
