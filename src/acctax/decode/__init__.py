"""The cycle: draft, verify, accept, commit, roll back."""
