"""Hydra's complaints about a command line, as the one line that ours have: the field, the value, what is allowed."""

from collections.abc import Sequence

from hydra.errors import MissingConfigException, OverrideParseException

from acctax.config import Cell
from acctax.errors import ConfigError
from acctax.paths import conf_dir
from acctax.schema import field_names, near


def translate(error: Exception, overrides: Sequence[str], schema: type = Cell) -> ConfigError:
    """overrides: the command line, for the value that Hydra's message leaves out; schema: what they compose."""
    if isinstance(error, OverrideParseException):
        return ConfigError(*_split(error.override), f"cannot be read, {_reason(error)}")
    if isinstance(error, MissingConfigException) and error.options is not None:
        for group in sorted(_groups(), key=len, reverse=True):
            if error.missing_cfg_file.startswith(f"{group}/"):
                return _no_such_option(group, error.missing_cfg_file.removeprefix(f"{group}/"), error.options)
        return _no_such_option(*error.missing_cfg_file.rsplit("/", 1), error.options)
    full_key = getattr(error.__cause__ or error, "full_key", None)
    for override in overrides:
        field, value = _split(override)
        if field == full_key or f"'{field}'" in str(error) or f"for {field}." in str(error):
            return _misplaced(override, field, value, schema) or ConfigError(field, value, _reason(error))
    for override in overrides:
        field, value = _split(override)
        options = _groups().get(field, [value])
        if value not in options:
            return _no_such_option(field, value, options)
    return ConfigError("command line", " ".join(overrides), _reason(error))


def _misplaced(override: str, field: str, value: str, schema: type) -> ConfigError | None:
    group, _, name = field.rpartition(".")
    known = field_names(schema, group)
    if known and name not in known:
        return ConfigError(field, value, f"no such field{near(name, known)}, only {', '.join(known)}")
    if override.startswith("+"):
        return ConfigError(field, value, "there is such a field already, leave the + out")
    return None


def _no_such_option(group: str, value: str, options: Sequence[str]) -> ConfigError:
    return ConfigError(group, value, f"no such option{near(value, options)}, only {', '.join(options)}")


def _groups() -> dict[str, list[str]]:
    folders = (folder for folder in conf_dir().iterdir() if folder.is_dir())
    groups = {folder.name: sorted(file.stem for file in folder.glob("*.yaml")) for folder in folders}
    groups["drafter_quant"] = ["none", *groups["target_quant"]]
    return groups


def _split(override: str) -> tuple[str, str]:
    field, _, value = override.lstrip("+~").partition("=")
    return field, value


def _reason(error: Exception) -> str:
    lines = str(error.__cause__ or error).splitlines()
    return next((line for line in lines if line and not line.startswith("Error parsing override")), repr(error))
