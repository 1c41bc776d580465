"""The cycle on small models: equal to plain decoding, ended where it must, rolled back to the row."""

import pytest
import torch

from acctax import ops
from acctax.config import AS_LOADED, Decoding, RandomLlamaTarget
from acctax.decode.cycle import Generation
from acctax.decode.rules import Greedy, Sampled
from acctax.decode.sampling import law
from acctax.draft.decoder_source import DecoderSource
from acctax.draft.ngram import NgramSource
from acctax.draft.none import NoSource
from acctax.draft.source import Draft
from acctax.models.checkpoint import open_checkpoint
from acctax.models.decoder import Decoder
from acctax.quant import recipes

TARGET = RandomLlamaTarget(
    "random_llama", layers=2, hidden=64, heads=4, kv_heads=2, intermediate=128, vocab=50, context=256, tie=True, seed=3
)
PROMPT = [int(i) for i in torch.randint(0, 50, (12,), generator=torch.Generator().manual_seed(1))]


@pytest.fixture(autouse=True, scope="module")
def kernels():
    ops.load()


def decoder(recipe="bf16", capacity=256):
    return Decoder.load(open_checkpoint(TARGET), recipes.load(recipe), capacity)


def self_source(recipe, rule=Greedy()):
    return DecoderSource(decoder(recipe), TARGET.vocab)


def generate(target, source, K, rule=Greedy(), stop=(), length=60, seed=0, prompt=PROMPT):
    generation = Generation(target, source, rule, stop)
    generation.begin(prompt, seed, length)
    cycles = []
    while not generation.finished:
        cycles.append(generation.cycle(K if isinstance(K, int) else K(len(cycles))))
    return generation, cycles


@pytest.fixture(scope="module")
def plain():
    return generate(decoder(), NoSource(), 0)[0].text


@pytest.mark.parametrize("K", range(1, 9))
@pytest.mark.parametrize("source", ["ngram", "int8_all", "nvfp4_all", "bf16"])
def test_greedy_output_is_plain_decodings_output(plain, source, K):
    drafter = NgramSource(1, 3, "earliest") if source == "ngram" else self_source(source)
    generation, cycles = generate(decoder(), drafter, K)
    assert generation.text == plain
    assert sum(cycle.committed for cycle in cycles) == len(plain) - len(PROMPT)


def test_a_drafter_that_is_the_target_is_always_accepted():
    """No hole after a full acceptance, whatever K does from cycle to cycle, K = 0 included."""
    widths = [3, 0, 1, 5, 0, 0, 8, 2]
    _, cycles = generate(decoder(), self_source("bf16"), lambda i: widths[i % len(widths)], length=200)
    assert all(cycle.accepted == cycle.drafted for cycle in cycles)


def test_a_drafter_of_another_opinion_is_rolled_back():
    """What the drafter proposes after rejections is what it would propose reading the text afresh."""
    generation, _ = generate(decoder(), self_source("nvfp4_all"), 4, length=40)
    fresh = self_source("nvfp4_all")
    fresh.begin(generation.text, 0, None)
    assert generation.source.draft(4, Greedy().draw) == fresh.draft(4, Greedy().draw)


class Scripted(NoSource):
    """A draft source that proposes what it is told."""

    def __init__(self, tokens):
        self.tokens = tokens

    def draft(self, K, draw, along=None):
        return Draft(self.tokens[:K])

    def process(self, tokens, features):
        self.tokens = self.tokens[len(tokens) :]


@pytest.mark.parametrize("K", range(1, 9))
def test_a_stop_token_ends_the_text_at_its_first_position(plain, K):
    answer = plain[len(PROMPT) :]
    stop = next(t for i, t in enumerate(answer) if i >= 5 and t not in answer[:i])
    generation, cycles = generate(decoder(), Scripted(answer), K, stop=[stop])
    assert generation.text[len(PROMPT) :] == answer[: answer.index(stop) + 1]
    assert generation.stopped and not generation.capped


@pytest.mark.parametrize("source", ["ngram", "int8_all", "bf16"])
@pytest.mark.parametrize("K", [1, 3, 5])
def test_the_clock_goes_on_where_a_text_has_ended(plain, source, K):
    answer = plain[len(PROMPT) :]
    for position in range(3, 12):
        drafter = NgramSource(1, 3, "earliest") if source == "ngram" else self_source(source)
        generation, _ = generate(decoder(), drafter, K, stop=[answer[position]], length=30)
        for _ in range(3):
            generation.end += K + 1
            generation.cycle(K)
        assert generation.text == plain[: len(generation.text)]


def test_a_stop_token_before_the_cap_and_one_beyond_it(plain):
    answer = plain[len(PROMPT) :]
    position = next(i for i in range(3, 20) if answer[i] not in answer[:i])
    for cap, kept in ((position + 3, position + 1), (position, position)):
        generation, _ = generate(decoder(), Scripted(answer), 8, stop=[answer[position]], length=cap)
        assert generation.text[len(PROMPT) :] == answer[:kept]
        assert generation.stopped == (kept > position)


def test_accepted_counts_drafts_and_committed_counts_what_was_kept(plain):
    answer = plain[len(PROMPT) :]
    stop = next(t for i, t in enumerate(answer) if i == 2)
    if stop in answer[:2]:
        pytest.skip("the model repeats itself at once")
    _, (cycle,) = generate(decoder(), Scripted(answer), 5, stop=[stop])
    assert (cycle.drafted, cycle.accepted, cycle.committed) == (5, 5, 3)


def test_the_cap_is_marked(plain):
    generation, cycles = generate(decoder(), self_source("bf16"), 4, length=7)
    assert [cycle.committed for cycle in cycles] == [5, 2] and generation.capped


def test_the_end_of_the_context():
    """A prompt two tokens short of the context, K = 4: two tokens more, nothing out of bounds."""
    prompt = [1 + i % 40 for i in range(62)]
    target, source = decoder(capacity=64), DecoderSource(decoder(capacity=64), TARGET.vocab)
    generation, _ = generate(target, source, 4, prompt=prompt, length=100)
    assert len(generation.text) == 64


@pytest.mark.parametrize("K", [0, 1, 4])
def test_the_same_seed_gives_the_same_text(K):
    rule = Sampled(Decoding("sample", 1.0, 0, 1.0))
    texts = [generate(decoder(), self_source("int8_all", rule), K, rule, seed=s)[0].text for s in (7, 7, 8)]
    assert texts[0] == texts[1] != texts[2]


def test_a_text_does_not_depend_on_the_texts_before_it():
    rule = Sampled(Decoding("sample", 1.0, 0, 1.0))
    generation, _ = generate(decoder(), self_source("int8_all", rule), 3, rule, seed=5)
    alone = generation.text
    for seed in (6, 5):
        generation.begin(PROMPT, seed, 60)
        while not generation.finished:
            generation.cycle(3)
    assert generation.text == alone


@pytest.mark.parametrize("K", [1, 3])
def test_sampled_text_has_the_targets_law(K):
    """The first two tokens of many sampled texts against the target's own joint law, drafts from a coarse drafter."""
    small = RandomLlamaTarget("random_llama", 1, 16, 2, 1, 32, vocab=5, context=64, tie=True, seed=2)
    checkpoint = open_checkpoint(small)
    rule = Sampled(Decoding("sample", 1.3, 0, 0.95))
    target = Decoder.load(checkpoint, AS_LOADED, 16)
    source = DecoderSource(Decoder.load(checkpoint, recipes.load("nvfp4_all"), 16), 5)
    prompt, trials = [1, 3], 10_000
    first = law(target.forward(prompt, target.new_cache())[-1], rule.decoding)
    joint = torch.stack([first[a] * law(target.forward([*prompt, a], target.new_cache())[-1], rule.decoding)
                         for a in range(5)])  # fmt: skip
    counts = torch.zeros(5, 5)
    generation = Generation(target, source, rule)
    for seed in range(trials):
        generation.begin(prompt, 1000 * seed, 2)
        while not generation.finished:
            generation.cycle(K)
        counts[tuple(generation.text[2:4])] += 1
    assert 0.5 * float((counts / trials - joint).abs().sum()) < 0.03
