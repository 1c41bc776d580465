"""The batched generator is the decoder, text by text, and its features are transformers' hidden states."""

import pytest
import torch

from acctax.config import AS_LOADED, HubTarget
from acctax.models.checkpoint import open_checkpoint
from acctax.models.decoder import Decoder
from acctax.train.generator import Generator
from tests.tiny import FAMILIES, VOCAB, save_model

LENGTHS, CAPACITY, LAYERS = (17, 9, 23), 32, (1, 2)


@pytest.fixture(scope="module", params=FAMILIES)
def family(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp(request.param)
    model = save_model(FAMILIES[request.param], folder)
    return model, open_checkpoint(HubTarget("hf", str(folder)))


def texts() -> list[list[int]]:
    generator = torch.Generator().manual_seed(3)
    return [torch.randint(3, VOCAB, (length,), generator=generator).tolist() for length in LENGTHS]


def run(generator: Generator, texts: list[list[int]]) -> tuple[list[torch.Tensor], list[torch.Tensor]]:
    """Logits and features [length, …] of each text, all advancing together, in slots of another order."""
    logits, features = [[] for _ in texts], [[] for _ in texts]
    for position in range(max(map(len, texts))):
        alive = [i for i, text in enumerate(texts) if position < len(text)]
        tokens = [texts[i][position] for i in alive]
        rows = generator.step([2 - i for i in alive], tokens, [position] * len(alive))
        for i, row_logits, row_features in zip(alive, *rows):
            logits[i].append(row_logits)
            features[i].append(row_features)
    return [torch.stack(rows) for rows in logits], [torch.stack(rows) for rows in features]


def test_logits_are_the_decoders(family):
    _, checkpoint = family
    decoder = Decoder.load(checkpoint, AS_LOADED, CAPACITY, torch.float32)
    logits, _ = run(Generator(checkpoint, 3, CAPACITY, LAYERS, torch.float32), texts())
    for text, got in zip(texts(), logits):
        expected = decoder.forward(text, decoder.new_cache())
        torch.testing.assert_close(got, expected, atol=1e-4, rtol=0)
        assert torch.equal(got.argmax(-1), expected.argmax(-1))


@torch.no_grad()
def test_features_are_hidden_states(family):
    model, checkpoint = family
    _, features = run(Generator(checkpoint, 3, CAPACITY, LAYERS, torch.float32), texts())
    for text, got in zip(texts(), features):
        states = model(torch.tensor([text]), output_hidden_states=True).hidden_states
        expected = torch.cat([states[1][0], states[2][0], states[-1][0]], dim=1)  # the last one is normed
        torch.testing.assert_close(got, expected, atol=1e-3, rtol=1e-4)


def test_a_text_goes_on_in_another_slot(family):
    _, checkpoint = family
    generator = Generator(checkpoint, 2, CAPACITY, LAYERS, torch.float32)
    text = texts()[0]
    for position, token in enumerate(text[:-1]):
        generator.step([0], [token], [position])
    generator.copy(0, 1, len(text) - 1)
    here, there = (generator.step([slot], [text[-1]], [len(text) - 1])[0] for slot in (0, 1))
    assert torch.equal(here, there)
