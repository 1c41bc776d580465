"""Weight formats by name. A format is one file that holds its encoder, its decoder and its rules."""

from acctax import ops
from acctax.errors import ConfigError
from acctax.quant.format import Format

_FORMATS: dict[str, Format] = {}


def register(name: str):
    """Class decorator: make a `Format` reachable by `name`, for recipes and for the reference linear op."""

    def decorate(cls: type[Format]) -> type[Format]:
        if name in _FORMATS:
            raise ValueError(f"two weight formats are called {name}")
        cls.name = name
        _FORMATS[name] = cls()
        ops.register_format(name, _FORMATS[name].unpack, _FORMATS[name].activations)
        return cls

    return decorate


def get(name: str) -> Format:
    """The format called `name`. Raises ConfigError with the names there are."""
    if name not in _FORMATS:
        raise ConfigError("format", name, f"must be one of {', '.join(names())}")
    return _FORMATS[name]


def names() -> list[str]:
    return sorted(_FORMATS)
