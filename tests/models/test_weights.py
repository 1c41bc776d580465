"""Weights arrive whole, in the formats that the recipe names, and the ledger counts what is stored."""

import pytest
import torch
from safetensors.torch import load_file, save_file

from acctax.config import AS_LOADED, HubTarget, RandomLlamaTarget, Recipe, Rule
from acctax.errors import ConfigError
from acctax.models import random_llama
from acctax.models.checkpoint import open_checkpoint
from acctax.models.decoder import Decoder
from acctax.models.ledger import pass_bytes
from acctax.quant import recipes
from tests.tiny import FAMILIES, save_model

TIED = RandomLlamaTarget("random_llama", 2, 64, 4, 2, 128, vocab=96, context=64, tie=True, seed=0)


def test_a_tied_embedding_stays_when_the_head_is_quantized():
    checkpoint = open_checkpoint(TIED)
    plain = Decoder.load(checkpoint, AS_LOADED, 32)
    quantized = Decoder.load(checkpoint, recipes.load("nvfp4_lm_head"), 32)
    assert torch.equal(plain.weights.embedding, quantized.weights.embedding)
    assert quantized.weights.lm_head.weights[0].format == "nvfp4"
    ledger = pass_bytes(quantized, rows=3, context=10)
    assert ledger["embedding"] == 3 * 64 * 2  # gathered rows
    assert ledger["lm_head"] == 96 * 64 * 4.5 / 8 + 4  # codes, block scales and one global scale


def test_drawing_leaves_torch_its_threads():
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(3)
        random_llama.tensors(random_llama.config(TIED), TIED.seed)
        assert torch.get_num_threads() == 3
    finally:
        torch.set_num_threads(before)


def test_a_tied_head_in_bf16_holds_the_embedding():
    weights = Decoder.load(open_checkpoint(TIED), AS_LOADED, 32).weights
    assert torch.equal(weights.lm_head(torch.eye(64).bfloat16()), weights.embedding.T)


def test_the_ledger_counts_every_stored_byte_once():
    decoder = Decoder.load(open_checkpoint(TIED), recipes.load("nvfp4_qkv"), 32)
    ledger = pass_bytes(decoder, rows=1, context=20)
    assert ledger["q"] == 2 * (64 * 64 * 4.5 / 8 + 4)  # layers; codes, block scales and one global scale
    assert ledger["gate"] == 2 * 128 * 64 * 2
    assert ledger["norms"] == 5 * 64 * 4
    assert ledger["kv"] == 2 * 21 * (2 * 2 * 16 * 2)  # layers, rows in sight, one key and one value


def test_a_window_bounds_the_cache_that_is_read(tmp_path):
    save_model(FAMILIES["mistral"], tmp_path)
    decoder = Decoder.load(open_checkpoint(HubTarget("hf", str(tmp_path))), AS_LOADED, 64)
    assert pass_bytes(decoder, 1, 50)["kv"] == pass_bytes(decoder, 1, 6)["kv"] < pass_bytes(decoder, 1, 6)["kv"] * 2


def test_matrices_packed_alike_are_shared():
    checkpoint = open_checkpoint(TIED)
    a, b = (Decoder.load(checkpoint, recipes.load(name), 32).weights.layers[0] for name in ("nvfp4_qkv", "nvfp4"))
    assert a.qkv.weights[0] is b.qkv.weights[0] and a.o.weights[0] is not b.o.weights[0]


@pytest.fixture
def folder(tmp_path):
    save_model(FAMILIES["llama_biases"], tmp_path)
    return tmp_path


def rewrite(folder, change):
    file = folder / "model.safetensors"
    tensors = load_file(file)
    change(tensors)
    save_file(tensors, file)
    return open_checkpoint(HubTarget("hf", str(folder)))


@pytest.mark.parametrize(
    "change, message",
    [
        (lambda t: t.pop("model.layers.1.mlp.up_proj.weight"), "up_proj.weight: is missing"),
        (lambda t: t.pop("model.layers.1.self_attn.o_proj.bias"), "o_proj.bias: is missing"),
        (lambda t: t.update({"model.layers.0.self_attn.q_norm.weight": torch.ones(16)}), "nothing uses it"),
        (lambda t: t.update({"lm_head.weight": torch.ones(3, 64)}), "must have shape"),
        (lambda t: t["model.layers.1.mlp.up_proj.weight"][3].fill_(torch.nan), "up_proj.weight: must be filled"),
        (lambda t: t["model.norm.weight"][0].fill_(torch.inf), "model.norm.weight: must be filled"),
    ],
)
def test_a_checkpoint_is_used_whole_or_refused(folder, change, message):
    checkpoint = rewrite(folder, change)
    with pytest.raises(ConfigError, match=message):
        Decoder.load(checkpoint, AS_LOADED, 32)


def test_a_format_that_does_not_fit_a_layer():
    rule = Rule("*.down_proj", "int4", group=48)
    with pytest.raises(ConfigError, match="down_proj"):
        Decoder.load(open_checkpoint(TIED), Recipe("odd", (rule,)), 32)


def test_modules_of_different_formats_stay_apart_and_add_up():
    """q quantized alone: three weights where one would do, and logits that differ only by q's rounding."""
    checkpoint = open_checkpoint(TIED)
    mixed = Decoder.load(checkpoint, Recipe("q", (Rule("*.q_proj", "int8"),)), 32)
    plain = Decoder.load(checkpoint, AS_LOADED, 32)
    assert [weight.format for weight in mixed.weights.layers[0].qkv.weights] == ["int8", "bf16", "bf16"]
    assert [weight.format for weight in plain.weights.layers[0].qkv.weights] == ["bf16"]
    mixed_logits, logits = (d.forward([1, 2, 3], d.new_cache()) for d in (mixed, plain))
    assert 0 < float((mixed_logits - logits).abs().max()) < 0.3
