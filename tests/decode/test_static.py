"""The static cycle, as a GPU replays it, against the host's: token for token and cycle for cycle."""

import pytest
import torch

from acctax import ops
from acctax.config import AS_LOADED, Decoding, RandomLlamaTarget
from acctax.decode.cycle import Generation
from acctax.decode.rules import Forced, Greedy, Sampled
from acctax.decode.static import StaticGeneration
from acctax.draft.decoder_source import DecoderSource
from acctax.draft.ngram import NgramSource
from acctax.draft.none import NoSource
from acctax.draft.synthetic import SyntheticSource, drawn
from acctax.models.checkpoint import open_checkpoint
from acctax.models.decoder import Decoder
from acctax.quant import recipes
from acctax.replayed import Recorder

TARGET = RandomLlamaTarget(
    "random_llama", layers=2, hidden=64, heads=4, kv_heads=2, intermediate=128, vocab=50, context=256, tie=True, seed=3
)
PROMPT = [int(i) for i in torch.randint(0, 50, (12,), generator=torch.Generator().manual_seed(1))]
SAMPLE = Sampled(Decoding("sample", 1.0, 0, 0.95))
MOST = 8


@pytest.fixture(autouse=True, scope="module")
def kernels():
    ops.load()


@pytest.fixture(autouse=True)
def recorded(monkeypatch):
    """As on a GPU: to record a step runs it once, before it is wanted."""
    def record(self, step):
        step()
        return step

    monkeypatch.setattr(Recorder, "record", record)


def decoder(recipe="bf16", capacity=256):
    return Decoder.load(open_checkpoint(TARGET), recipes.load(recipe), capacity)


def self_source(recipe, capacity=256):
    return DecoderSource(decoder(recipe, capacity), TARGET.vocab)


SOURCES = {
    "none": NoSource,
    "ngram": lambda: NgramSource(1, 3, "earliest"),
    "bf16": lambda: self_source("bf16"),
    "int8_all": lambda: self_source("int8_all"),
    "nvfp4_all": lambda: self_source("nvfp4_all"),
}


def both(target, make, rule, K, length=60, seed=0, prompt=PROMPT, stop=()):
    """(text, cycles without their times, the generation) of the host's cycle and of the static one."""
    made = []
    for generation in (Generation(target, make(), rule, stop), StaticGeneration(target, make(), rule, stop, MOST)):
        generation.begin(prompt, seed, length)
        cycles = []
        while not generation.finished:
            cycle = generation.cycle(K if isinstance(K, int) else K(len(cycles)))
            assert cycle.seconds >= cycle.draft_seconds >= 0
            cycles.append((cycle.drafted, cycle.accepted, cycle.committed))
        made.append((generation.text, cycles, generation))
    return made


def assert_equal(made):
    (text, cycles, host), (static_text, static_cycles, static) = made
    assert static_text == text and static_cycles == cycles
    assert (static.stopped, static.capped, static.cache.length) == (host.stopped, host.capped, host.cache.length)


@pytest.mark.parametrize("K", range(7))
@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("rule", [Greedy(), SAMPLE], ids=["greedy", "sampled"])
def test_a_text_is_that_of_the_hosts_cycle(rule, source, K):
    assert_equal(both(decoder(), SOURCES[source], rule, K, length=40))


@pytest.mark.parametrize("recipe", ["fp8", "int8_all", "int4", "nvfp4_all", "mxfp4", "nf4"])
def test_in_every_format(recipe):
    for K in (1, 4):
        assert_equal(both(decoder(recipe), SOURCES["int8_all"], Greedy(), K, length=30))


@pytest.mark.parametrize("rule", [Greedy(), SAMPLE], ids=["greedy", "sampled"])
@pytest.mark.parametrize("source", SOURCES)
def test_whatever_K_does_from_cycle_to_cycle(source, rule):
    widths = [3, 0, 1, 5, 0, 0, 8, 2]
    assert_equal(both(decoder(), SOURCES[source], rule, lambda i: widths[i % len(widths)], length=80))


@pytest.mark.parametrize("rule", [Greedy(), SAMPLE], ids=["greedy", "sampled"])
@pytest.mark.parametrize("like", SOURCES)
def test_acceptance_as_given(like, rule):
    def synthetic():
        return SyntheticSource(drawn([0.8, 0.7, 0.6]), SOURCES[like](), TARGET.vocab)

    made = both(decoder(), synthetic, Forced(rule), 3, length=40, seed=5)
    assert_equal(made)
    assert {accepted for _, accepted, _ in made[1][1]} == {0, 1, 2, 3}


@pytest.mark.parametrize("source", ["ngram", "int8_all"])
def test_a_prompt_of_one_token(source):
    assert_equal(both(decoder(), SOURCES[source], Greedy(), 3, length=20, prompt=PROMPT[:1]))


def test_the_end_of_the_context():
    prompt = [1 + i % 40 for i in range(62)]
    made = both(decoder(capacity=64), lambda: self_source("int8_all", 64), Greedy(), 4, prompt=prompt, length=100)
    assert_equal(made)
    assert len(made[1][0]) == 64


def test_a_stop_token_ends_a_text_and_the_next_text_is_its_own():
    plain = both(decoder(), NoSource, Greedy(), 0)[0][0][len(PROMPT) :]
    stop = next(t for i, t in enumerate(plain) if i >= 5 and t not in plain[:i])
    made = both(decoder(), SOURCES["bf16"], Greedy(), 5, stop=[stop])
    assert_equal(made)
    generations = [generation for *_, generation in made]
    for generation in generations:  # the clock goes on where a text has ended
        generation.end += 20
        for _ in range(3):
            generation.cycle(5)
    assert generations[0].text == generations[1].text
    for generation in generations:
        generation.begin(PROMPT[:7], 1, 12)
        while not generation.finished:
            generation.cycle(3)
    assert generations[0].text == generations[1].text


def test_passes_that_are_clocked_leave_no_trace():
    generation, expected = StaticGeneration(decoder(), SOURCES["int8_all"](), SAMPLE, (), 4), None
    for clocked in (False, True):
        generation.begin(PROMPT, 3, 30)
        while not generation.finished:
            generation.cycle(4)
            if clocked:
                assert all(generation.pass_seconds(rows) > 0 for rows in range(1, 6))
        expected = expected or generation.text
    assert generation.text == expected
    generation.text *= 10
    with pytest.raises(ValueError, match="do not fit a cache"):
        generation.pass_seconds(1)


@pytest.mark.parametrize("rule", [Greedy(), SAMPLE], ids=["greedy", "sampled"])
@pytest.mark.parametrize("source", ["none", "ngram", "bf16", "given"])
def test_the_kernels_of_a_gpu_write_the_hosts_text(cuda_source, source, rule):
    given = source == "given"

    def make():
        return SyntheticSource(drawn([0.7, 0.5]), self_source("bf16"), TARGET.vocab) if given else SOURCES[source]()

    widths = [2, 0, 1, 2]
    rule = Forced(rule) if given else rule
    made = both(decoder(), make, rule, lambda i: widths[i % 4], length=9, prompt=[7, 8, 9, 7])
    assert_equal(made)


def test_a_law_without_a_token_ends_the_text(monkeypatch):
    """As the kernels report what is drawn from logits that are NaN."""
    generation = StaticGeneration(decoder(), NoSource(), SAMPLE, (), MOST)
    generation.begin(PROMPT, 0, 10)
    monkeypatch.setattr(ops, "verify", lambda *arguments: torch.tensor([0, -1]))
    with pytest.raises(RuntimeError, match="may not be finite"):
        generation.cycle(0)


def test_a_source_that_draws_on_the_host_is_refused():
    class Drawing(NoSource):
        def draft(self, K, draw, along=None):
            draw(torch.zeros(50), torch.Generator())

    generation = StaticGeneration(decoder(), Drawing(), SAMPLE, (), 2)
    generation.begin(PROMPT, 0, 10)
    with pytest.raises(TypeError, match="must do so on the device"):
        generation.cycle(2)


def test_a_text_of_one_recipe_does_not_depend_on_the_texts_before_it():
    generation = StaticGeneration(decoder(), SOURCES["int8_all"](), SAMPLE, (), 3)
    texts = []
    for seed in (5, 6, 5):
        generation.begin(PROMPT, seed, 40)
        while not generation.finished:
            generation.cycle(3)
        texts.append(generation.text)
    assert texts[0] == texts[2] != texts[1]


def test_sampled_text_has_the_targets_law():
    """The first two tokens of many sampled texts against the target's own joint law, drafts from a coarse drafter."""
    small = RandomLlamaTarget("random_llama", 1, 16, 2, 1, 32, vocab=5, context=64, tie=True, seed=2)
    checkpoint, rule = open_checkpoint(small), Sampled(Decoding("sample", 1.3, 0, 0.95))
    target = Decoder.load(checkpoint, AS_LOADED, 16)
    source = DecoderSource(Decoder.load(checkpoint, recipes.load("nvfp4_all"), 16), 5)
    prompt, trials = [1, 3], 4000

    def law(text):
        return ops.law(target.forward(text, target.new_cache())[-1], 1.3, 0, 0.95)

    joint = torch.stack([law(prompt)[a] * law([*prompt, a]) for a in range(5)])
    counts, generation = torch.zeros(5, 5), StaticGeneration(target, source, rule, (), 2)
    for seed in range(trials):
        generation.begin(prompt, 1000 * seed, 2)
        while not generation.finished:
            generation.cycle(2)
        counts[tuple(generation.text[2:4])] += 1
    assert 0.5 * float((counts / trials - joint).abs().sum()) < 0.045
