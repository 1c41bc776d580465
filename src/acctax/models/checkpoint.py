"""A checkpoint: configuration, tokenizer and tensors of a target, wherever they come from."""

from collections.abc import MutableMapping
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from pathlib import Path
from weakref import WeakValueDictionary

from huggingface_hub import snapshot_download
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file
from torch import Tensor
from transformers import AutoConfig, AutoTokenizer, GenerationConfig

from acctax.config import GgufTarget, HubTarget, RandomLlamaTarget, Target
from acctax.errors import ConfigError
from acctax.models import random_llama
from acctax.models.config import DecoderConfig, read_config
from acctax.models.gguf import converted
from acctax.models.tokenizer import ByteTokenizer, Tokenizer


@dataclass(frozen=True, eq=False)
class Checkpoint:
    """What a decoder is built from. Tensors are read when first asked for."""

    name: str
    config: DecoderConfig
    tokenizer: Tokenizer
    stop_tokens: frozenset[int]
    folder: Path | None  # None: random weights
    seed: int = 0
    # device, whether the reference runs, (module, format, group) of modules → their `Linear`, while it is in use
    packed: MutableMapping[tuple, object] = field(default_factory=WeakValueDictionary)

    def check_files(self) -> None:
        """Whether every file of weights is whole, from their headers. Raises ConfigError."""
        for file in self._files():
            try:
                with safe_open(file, framework="pt"):
                    pass
            except (SafetensorError, OSError) as error:
                raise ConfigError("target.path", file, f"must be a complete safetensors file ({error})") from error

    def _files(self) -> list[Path]:
        return [] if self.folder is None else sorted(self.folder.glob("*.safetensors"))

    @cached_property
    def tensors(self) -> dict[str, Tensor]:
        """Names as transformers writes them → tensors as stored. Raises ConfigError where one was never filled."""
        if self.folder is None:
            return random_llama.tensors(self.config, self.seed)
        self.check_files()
        tensors = {name: tensor for file in self._files() for name, tensor in load_file(file).items()}
        for name, tensor in tensors.items():
            if tensor.is_floating_point() and not all(extreme.isfinite() for extreme in tensor.aminmax()):
                raise ConfigError(f"{self.name}: tensor", name, "must be filled: it holds values that are not finite")
        return tensors


@lru_cache(maxsize=4)
def open_checkpoint(target: Target) -> Checkpoint:
    """The checkpoint of a target, opened once a process.

    Raises ConfigError for a missing or damaged file and for a model family that the decoder does not know.
    """
    match target:
        case RandomLlamaTarget():
            config = random_llama.config(target)
            return Checkpoint(target.name, config, ByteTokenizer(target.vocab), frozenset(), None, target.seed)
        case GgufTarget():
            return _open_folder(target.name, converted(target), chat=target.chat)
        case HubTarget():
            return _open_folder(target.path, local_folder(target.path, "target.path"), chat=True)


def local_folder(path: str, field: str) -> Path:
    """A folder with config.json and safetensors, here or from the hub. Raises ConfigError naming `field`."""
    folder = Path(path).expanduser()
    if not folder.is_dir():
        if folder.is_absolute() or path.startswith(("./", "../", "~")) or path.count("/") != 1:
            raise ConfigError(field, path, "must be a local folder or a hub id (owner/name)")
        try:
            patterns = ["*.json", "*.safetensors", "*.jinja", "tokenizer*", "*.model", "merges.txt"]
            folder = Path(snapshot_download(path, allow_patterns=patterns))
        except Exception as error:  # offline, unknown, gated: all end here
            reason = str(error).splitlines()[0]
            wanted = "must be a local folder or a model that the hub gives"
            raise ConfigError(field, path, f"{wanted} ({reason})") from error
    if not (folder / "config.json").exists() or not list(folder.glob("*.safetensors")):
        raise ConfigError(field, path, "must hold config.json and *.safetensors")
    return folder


def _open_folder(name: str, folder: Path, chat: bool) -> Checkpoint:
    try:
        hf = AutoConfig.from_pretrained(folder, trust_remote_code=False)
        tokenizer = AutoTokenizer.from_pretrained(folder, trust_remote_code=False)
    except Exception as error:  # a damaged or unknown config.json or tokenizer
        reason = str(error).splitlines()[0]
        wanted = "must hold a config.json and a tokenizer that transformers reads"
        raise ConfigError("target.path", folder, f"{wanted} ({reason})") from error
    if not chat:
        tokenizer.chat_template = None
    return Checkpoint(name, read_config(hf, "target"), tokenizer, _stop_tokens(hf, folder), folder)


def _stop_tokens(hf, folder: Path) -> frozenset[int]:
    """End of text, by the generation configuration where there is one (chat models add their end of turn there)."""
    if (folder / "generation_config.json").exists():
        stop = GenerationConfig.from_pretrained(folder).eos_token_id
    else:
        stop = hf.eos_token_id
    return frozenset(() if stop is None else [stop] if isinstance(stop, int) else stop)
