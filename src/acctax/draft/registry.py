"""Draft sources by name. A source is one file that holds what it may be asked and how it drafts."""

from acctax.draft.setting import Setting
from acctax.draft.source import DraftSource
from acctax.errors import ConfigError

_SOURCES: dict[str, type[DraftSource]] = {}


def register(kind: str):
    """Class decorator: the source that serves `draft_source.kind=<kind>`."""

    def decorate(cls: type[DraftSource]) -> type[DraftSource]:
        if kind in _SOURCES:
            raise ValueError(f"two draft sources are called {kind}")
        _SOURCES[kind] = cls
        return cls

    return decorate


def build(choice, setting: Setting) -> DraftSource:
    return _SOURCES[choice.kind].build(choice, setting)


def check(choice, setting: Setting) -> None:
    """Whether the drafter fits its target, before any weight is read. Raises ConfigError."""
    source = _SOURCES[choice.kind]
    if setting.drafter_quant is not None and not source.has_weights:
        raise ConfigError("drafter_quant", setting.drafter_quant.name, f"must be none: {choice.kind} has no weights")
    source.check(choice, setting)
