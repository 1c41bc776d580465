"""Where things stand: conf/, kernels/ and heads/ (the checkout's, or the wheel's own copies) and the cache folder."""

import os
from pathlib import Path

import platformdirs

from acctax.errors import ConfigError

_PACKAGE = Path(__file__).resolve().parent


def conf_dir() -> Path:
    """The folder of the configuration: conf/ of the checkout, acctax/conf inside an installed wheel."""
    return _shipped("conf")


def kernels_dir() -> Path:
    """The folder of the kernels' sources: kernels/ of the checkout, acctax/kernels inside an installed wheel."""
    return _shipped("kernels")


def heads_dir() -> Path:
    """The folder of the shipped draft heads, <target>/<kind>/ each: heads/ of the checkout, acctax/heads in a wheel."""
    return _shipped("heads")


def _shipped(folder: str) -> Path:
    root = _PACKAGE.parent.parent
    in_checkout = _PACKAGE.parent.name == "src" and (root / "pyproject.toml").is_file()
    return (root if in_checkout else _PACKAGE) / folder


def cache_dir(override: str | None = None) -> Path:
    """The folder for converted checkpoints and built kernels, made if absent.

    override: a folder of the user's choice (`target.cache_dir`); None is the user's cache folder.
    Raises ConfigError where nothing can be written.
    """
    folder = Path(override).expanduser().resolve() if override else platformdirs.user_cache_path("acctax")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        writable = os.access(folder, os.W_OK | os.X_OK)
    except OSError:
        writable = False
    if not writable:
        raise ConfigError("target.cache_dir", folder, "must be a folder that can be written")
    return folder
