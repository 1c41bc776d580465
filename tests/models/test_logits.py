"""The decoder's logits are transformers' logits."""

import pytest
import torch

from acctax.config import AS_LOADED, HubTarget
from acctax.models.checkpoint import open_checkpoint
from acctax.models.decoder import Decoder
from tests.tiny import FAMILIES, VOCAB, save_model

TOKENS = [int(i) for i in torch.randint(3, VOCAB, (40,), generator=torch.Generator().manual_seed(5))]


@pytest.fixture(scope="module", params=FAMILIES)
def family(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp(request.param)
    model = save_model(FAMILIES[request.param], folder)
    checkpoint = open_checkpoint(HubTarget("hf", str(folder)))
    return model, Decoder.load(checkpoint, AS_LOADED, capacity=64, dtype=torch.float32)


@torch.no_grad()
def oracle(model, tokens):
    return model(torch.tensor([tokens])).logits[0]


def test_logits_equal_transformers(family):
    model, decoder = family
    got = decoder.forward(TOKENS, decoder.new_cache())
    torch.testing.assert_close(got, oracle(model, TOKENS), atol=1e-4, rtol=0)


def test_rows_are_the_same_bits_for_every_width(family):
    _, decoder = family
    whole = decoder.forward(TOKENS, decoder.new_cache())
    for width in (1, 2, 5, 7):
        cache = decoder.new_cache()
        parts = [decoder.forward(TOKENS[i : i + width], cache) for i in range(0, len(TOKENS), width)]
        assert torch.equal(torch.cat(parts), whole), width


def test_rolling_back_forgets_exactly(family):
    """Verify, reject, go on: as if the rejected rows had never been, beyond a window's length too."""
    _, decoder = family
    straight = decoder.forward(TOKENS, decoder.new_cache())
    cache = decoder.new_cache()
    decoder.forward(TOKENS[:20], cache)
    decoder.forward([3, 4, 5, 6, 7, 8, 9, 10, 11], cache)
    cache.roll_back(20)
    assert torch.equal(decoder.forward(TOKENS[20:], cache), straight[20:])


def test_last_rows_alone(family):
    _, decoder = family
    whole = decoder.forward(TOKENS, decoder.new_cache())
    assert torch.equal(decoder.forward(TOKENS, decoder.new_cache(), last=2), whole[-2:])


def test_a_full_cache_says_so(family):
    _, decoder = family
    with pytest.raises(ValueError, match="60 \\+ 5 rows do not fit a cache of 64"):
        cache = decoder.new_cache()
        decoder.forward((TOKENS * 2)[:60], cache)
        decoder.forward(TOKENS[:5], cache)
