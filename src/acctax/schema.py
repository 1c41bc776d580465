"""From plain mappings to frozen dataclasses, by their annotations, with every misfit named by its dotted path."""

import types
from collections.abc import Iterable, Mapping
from dataclasses import MISSING, fields, is_dataclass
from difflib import get_close_matches
from typing import Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from acctax.errors import ConfigError

T = TypeVar("T")
_NAMES = {int: "an integer", float: "a number", str: "a text", bool: "true or false"}


def require(holds: bool, field: str, value: object, allowed: str) -> None:
    if not holds:
        raise ConfigError(field, value, allowed)


def convert(kind: type[T], value: object, path: str = "") -> T:
    """`value`, made of what YAML knows, as an instance of the annotation `kind`.

    The dataclasses of a union are told apart by their Literal field `kind`. Raises ConfigError for a missing ("???"),
    unknown or ill-typed field.
    """
    require(value != "???", path, value, "must be given")
    origin, options = get_origin(kind), get_args(kind)
    if origin is Literal:
        require(value in options, path, value, f"must be one of {', '.join(map(str, options))}")
        return value
    if origin in (Union, types.UnionType) or _is_open(kind):
        return _one_of(_members(kind), value, path)
    if origin is tuple:
        require(isinstance(value, list | tuple), path, value, "must be a list")
        return tuple(convert(options[0], item, f"{path}[{i}]") for i, item in enumerate(value))
    if is_dataclass(kind):
        return _instance(kind, value, path)
    if kind is float and type(value) is int or kind is str and type(value) in (int, float):
        return kind(value)  # a name that YAML reads as a number is a name all the same
    require(type(value) is kind, path, value, f"must be {_NAMES[kind]}")
    return value


def _one_of(options: tuple[type, ...], value: object, path: str):
    if type(None) in options:
        kind = next(option for option in options if option is not type(None))
        return None if value is None else convert(kind, value, path)
    by_kind = {get_args(get_type_hints(option)["kind"])[0]: option for option in options}
    require(isinstance(value, Mapping), path, value, "must be an option of its group")
    require(value.get("kind") in by_kind, f"{path}.kind", value.get("kind"), f"must be one of {', '.join(by_kind)}")
    return _instance(by_kind[value["kind"]], value, path)


def _instance(kind: type[T], value: object, path: str) -> T:
    require(isinstance(value, Mapping), path, value, "must be an option of its group")
    prefix = f"{path}." if path else ""
    hints = get_type_hints(kind)
    known = [field.name for field in fields(kind) if field.compare]
    for key in value:
        require(key in known, f"{prefix}{key}", value[key], f"no such field{near(key, known)}, only {', '.join(known)}")
    for field in fields(kind):
        require(field.name in value or field.default is not MISSING, f"{prefix}{field.name}", None, "must be given")
    return kind(**{key: convert(hints[key], item, f"{prefix}{key}") for key, item in value.items()})


def near(name: str, known: Iterable[str]) -> str:
    """", did you mean …?" where one of the known names is close."""
    close = get_close_matches(name, list(known), n=1, cutoff=0.5)
    return f", did you mean {close[0]}?" if close else ""


def field_names(kind: type, path: str = "") -> list[str]:
    """The fields that `kind` may hold at a dotted path, those of every member of a union; empty where there is none."""
    for name in path.split(".") if path else []:
        options = [option for option in _members(kind) if is_dataclass(option)]
        kind = Union[*(get_type_hints(option).get(name, type(None)) for option in options)] if options else type(None)
    return list(dict.fromkeys(
        field.name for option in _members(kind) if is_dataclass(option) for field in fields(option) if field.compare))


def _members(kind: type) -> tuple[type, ...]:
    if _is_open(kind):
        return tuple(kind.members.values())
    return get_args(kind) if get_origin(kind) in (Union, types.UnionType) else (kind,)


def _is_open(kind: type) -> bool:
    """A base class that keeps its `members`: a union that other modules add to."""
    return isinstance(kind, type) and "members" in vars(kind)
