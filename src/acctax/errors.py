"""The one error a user can cause."""


class ConfigError(ValueError):
    """A choice that cannot run. Its message is one line: the field, the value, and what is allowed."""

    def __init__(self, field: str, value: object, allowed: str):
        self.field, self.value, self.allowed = field, value, allowed
        super().__init__(" ".join(f"{field}={value}: {allowed}".split()))
