"""A head's folder: its config.json and the headers of its safetensors. Tensors are read when asked for."""

import json
from pathlib import Path

from safetensors import SafetensorError, safe_open
from torch import Tensor

from acctax.errors import ConfigError


class HeadFiles:
    """`values` is what config.json says; `shapes`: tensor → shape, of every safetensors file of the folder."""

    def __init__(self, folder: Path):
        self.folder = folder
        self.values = self._config()
        self.shapes: dict[str, tuple[int, ...]] = {}
        self._file: dict[str, Path] = {}
        for file in sorted(folder.glob("*.safetensors")):
            try:
                with safe_open(file, framework="pt") as opened:
                    for name in opened.keys():  # noqa: SIM118  it is no dict
                        self.shapes[name] = tuple(opened.get_slice(name).get_shape())
                        self._file[name] = file
            except (SafetensorError, OSError) as error:
                raise self.error("file", file.name, f"must be a complete safetensors file ({error})") from error

    def _config(self) -> dict:
        try:
            values = json.loads((self.folder / "config.json").read_text())
        except (OSError, ValueError) as error:
            raise self.error("file", "config.json", f"must be a JSON file that can be read ({error})") from error
        if not isinstance(values, dict):
            raise self.error("file", "config.json", "must hold an object")
        return values

    def error(self, field: str, value: object, allowed: str) -> ConfigError:
        return ConfigError(f"{self.folder}: {field}", value, allowed)

    def require(self, holds: bool, field: str, value: object, allowed: str) -> None:
        if not holds:
            raise self.error(field, value, allowed)

    def only_one(self, field: str, layers: object) -> None:
        self.require(layers == 1, field, layers, "must be 1: one layer drafts every token")

    def have(self, prefix: str) -> bool:
        return any(name.startswith(prefix) for name in self.shapes)

    def tensor(self, name: str) -> Tensor:
        """Raises ConfigError where values are not finite: engines mark what was never filled by NaN."""
        with safe_open(self._file[name], framework="pt") as opened:
            tensor = opened.get_tensor(name)
        if tensor.is_floating_point() and tensor.numel():
            finite = all(extreme.isfinite() for extreme in tensor.aminmax())
            self.require(finite, "tensor", name, "must be filled: it holds values that are not finite")
        return tensor


def fingerprint(folder: Path) -> tuple[str, ...]:
    """Tells a head from another that was written over it."""
    files = sorted([*folder.glob("*.safetensors"), *folder.glob("config.json")])
    return tuple(f"{file} {file.stat().st_size} {file.stat().st_mtime_ns}" for file in files)
