"""A head in the cycle: it changes nothing of the text, and its state is always what the text alone would give."""

import pytest
import torch

from acctax import ops
from acctax.config import AS_LOADED, Decoding, HubTarget, RandomLlamaTarget
from acctax.decode.cycle import Generation
from acctax.decode.rules import Forced, Greedy, Sampled
from acctax.decode.sampling import law
from acctax.decode.static import StaticGeneration
from acctax.draft.fallback import FallbackSource
from acctax.draft.heads.checkpoint import open_head
from acctax.draft.heads.head import Head
from acctax.draft.heads.source import HeadSource
from acctax.draft.ngram import NgramSource
from acctax.draft.none import NoSource
from acctax.draft.source import Draft
from acctax.draft.synthetic import SyntheticSource, drawn
from acctax.models.checkpoint import open_checkpoint
from acctax.models.decoder import Decoder
from acctax.quant import recipes
from tests.draft.heads import published
from tests.draft.heads.published import TARGET, VOCAB
from tests.tiny import save_model

HEADS = {
    "eagle3": published.eagle3, "eagle3_gathered": published.eagle3_speculators, "eagle1": published.eagle1,
    "deepseek": published.deepseek, "qwen3_next": published.qwen, "mimo": published.mimo,
    "mtp": published.mtp_speculators,
}  # fmt: skip
PROMPT = [int(i) for i in torch.randint(3, VOCAB, (12,), generator=torch.Generator().manual_seed(1))]


@pytest.fixture(autouse=True, scope="module")
def kernels():
    ops.load()


@pytest.fixture(scope="module")
def target(tmp_path_factory):
    folder = tmp_path_factory.mktemp("target")
    save_model(TARGET, folder)
    return Decoder.load(open_checkpoint(HubTarget("hf", str(folder))), AS_LOADED, 128), folder


@pytest.fixture(scope="module")
def source_of(target, tmp_path_factory):
    def source(name, recipe="bf16"):
        kind = "eagle" if "eagle" in name else "mtp"
        folder = HEADS[name]().save(tmp_path_factory.mktemp(name))
        head = open_head(folder, kind, open_checkpoint(HubTarget("hf", str(target[1]))))
        return HeadSource(Head.load(head, recipes.load(recipe), 128), VOCAB)

    return source


def generate(target, source, K, rule=Greedy(), length=50, seed=0, prompt=PROMPT):
    generation = Generation(target, source, rule)
    generation.begin(prompt, seed, length)
    cycles = []
    while not generation.finished:
        cycles.append(generation.cycle(K if isinstance(K, int) else K(len(cycles))))
    return generation, cycles


@pytest.fixture(scope="module")
def plain(target):
    return generate(target[0], NoSource(), 0)[0].text


@pytest.mark.parametrize("name", HEADS)
def test_greedy_output_is_plain_decodings_output(target, source_of, plain, name):
    for source in (source_of(name), FallbackSource(NgramSource(1, 3, "latest"), source_of(name))):
        for K in range(1, 7):
            generation, cycles = generate(target[0], source, K)
            assert generation.text == plain
            assert cycles[0].drafted == K


def assert_static_cycle_writes_the_same(target, makers, length):
    """Of a text by each maker of a source: how → (make, rule, K of a cycle by its number, prompt)."""
    for how, (make, its_rule, K, prompt) in makers.items():
        made = []
        for cycle_class, most in ((Generation, ()), (StaticGeneration, ((), 6))):
            generation = cycle_class(target, make(), its_rule, *most)
            generation.begin(prompt, 3, length)
            cycles = []
            while not generation.finished:
                cycles.append(generation.cycle(K(len(cycles))))
            made.append((generation.text, [(cycle.drafted, cycle.accepted, cycle.committed) for cycle in cycles]))
        assert made[0] == made[1], how


@pytest.mark.parametrize("name", HEADS)
@pytest.mark.parametrize("temperature", [0, 0.8])
def test_the_static_cycle_writes_the_same_text(target, source_of, name, temperature):
    """As a GPU replays it: token for token and cycle for cycle, after an n-gram's drafts and after none."""
    rule = Sampled(Decoding("sample", temperature, 0, 1.0)) if temperature else Greedy()
    assert_static_cycle_writes_the_same(target[0], {
        "alone": (lambda: source_of(name), rule, lambda i: 4, PROMPT),
        "after an n-gram": (lambda: FallbackSource(NgramSource(1, 2, "latest"), source_of(name)), rule,
                            lambda i: (3, 0, 1, 6)[i % 4], PROMPT),
        "imitated": (lambda: SyntheticSource(drawn([0.8] * 6), source_of(name), VOCAB), Forced(rule), lambda i: 3,
                     PROMPT[:1]),
    }, length=40)  # fmt: skip


@pytest.mark.parametrize("name", ["eagle3", "mimo"])
def test_the_kernels_of_a_gpu_write_the_hosts_text(cuda_source, target, source_of, name):
    again = Decoder.load(open_checkpoint(HubTarget("hf", str(target[1]))), AS_LOADED, 64)  # laid out for them
    rule = Sampled(Decoding("sample", 0.8, 20, 0.9))
    assert_static_cycle_writes_the_same(again, {
        "greedy": (lambda: source_of(name), Greedy(), lambda i: (2, 0, 1)[i % 3], PROMPT[:5]),
        "sampled": (lambda: source_of(name), rule, lambda i: 2, PROMPT[:5]),
    }, length=7)  # fmt: skip


class Oracle(HeadSource):
    """A head whose first few drafts, a number that changes from cycle to cycle, are what the target will say."""

    def __init__(self, source, text):
        super().__init__(source.head, source.vocab)
        self.coming, self.cycle = text, 0

    def draft(self, K, draw, along=None):
        draft = super().draft(K, draw)
        self.cycle += 1
        right = self.cycle * 7 % (K + 2)
        return Draft((self.coming[len(self.text) :][:right] + draft.tokens[right:])[: len(draft.tokens)])

    def begin(self, prompt, seed, features):
        super().begin(prompt, seed, features)
        self.text = list(prompt)

    def process(self, tokens, features):
        super().process(tokens, features)
        self.text += tokens


@pytest.mark.parametrize("name", HEADS)
def test_after_any_acceptance_a_head_is_as_if_it_read_the_text_afresh(target, source_of, plain, name):
    """The same bits in the cache and the same drafts, however many drafts were kept, cycles that drafted none too."""
    source, widths = Oracle(source_of(name), plain), (4, 6, 0, 1, 3)
    generation, cycles = generate(target[0], source, lambda i: widths[i % 5], length=44)
    assert {cycle.accepted for cycle in cycles} >= {0, 1, 4, 6} and generation.text == plain[: len(generation.text)]
    used = generation.source
    fresh = Generation(target[0], source_of(name), Greedy())
    fresh.begin(generation.text, 0, 1)
    drafts = HeadSource.draft(used, 5, Greedy().draw), fresh.source.draft(5, Greedy().draw)
    assert drafts[0] == drafts[1]
    rows = len(generation.text) - 1
    assert used.known == fresh.source.known == rows
    for a, b in zip(used.cache.layers[0], fresh.source.cache.layers[0]):
        assert torch.equal(a[:, : rows + 4], b[:, : rows + 4])


def test_one_token_is_a_prompt_too(target, source_of):
    prompt = PROMPT[:1]
    expected = generate(target[0], NoSource(), 0, prompt=prompt)[0].text
    generation, cycles = generate(target[0], source_of("eagle3"), 3, prompt=prompt)
    assert generation.text == expected
    assert [cycle.drafted for cycle in cycles[:2]] == [0, 3]  # at first there is no state to draft from


def test_the_end_of_the_context(target, source_of):
    prompt = [3 + i % 90 for i in range(126)]
    generation, _ = generate(target[0], source_of("mtp"), 4, prompt=prompt, length=100)
    assert len(generation.text) == 128


def test_sampled_drafts_stay_in_the_draft_vocabulary(target, source_of):
    rule = Sampled(Decoding("sample", 1.0, 0, 1.0))
    source = source_of("eagle3")
    generation = Generation(target[0], source, rule)
    generation.begin(PROMPT, 3, 40)
    draft = source.draft(5, rule.draw)
    assert draft.q.shape == (5, VOCAB) and torch.allclose(draft.q.sum(-1), torch.ones(5))
    outside = torch.ones(VOCAB, dtype=torch.bool).index_fill(0, source.head.ids, False)
    assert int(outside.sum()) == VOCAB - published.DRAFT_VOCAB and not draft.q[:, outside].any()
    assert all(draft.q[i, token] > 0 for i, token in enumerate(draft.tokens))


@pytest.mark.parametrize("name", ["eagle3", "mtp"])
def test_the_same_seed_gives_the_same_text(target, source_of, name):
    rule = Sampled(Decoding("sample", 0.8, 0, 0.95))
    source = source_of(name)
    texts = [generate(target[0], source, 3, rule, seed=s)[0].text for s in (7, 7, 8)]
    assert texts[0] == texts[1] != texts[2]


SMALL = dict(hidden_size=16, intermediate_size=32, num_attention_heads=2, num_key_value_heads=1, head_dim=8,
             vocab_size=5)  # fmt: skip


def small_head(kind, folder):
    """Heads for a target of 5 tokens, of which they draft 3."""
    r = published.Random()
    sizes = {64: 16, 128: 32, 96: 32, 40: 3, 97: 5, 192: 48, 32: 8, 16: 8}
    head = published.eagle3_speculators((1, 2, 3)) if kind == "eagle" else published.mtp_speculators()
    shrunk = {name: r.matrix(*(sizes[n] for n in t.shape)) if t.dim() == 2 else r.norm(sizes[t.shape[0]])
              for name, t in head.tensors.items()}  # fmt: skip
    config = head.config | {"draft_vocab_size": 3,
                            "transformer_layer_config": head.config["transformer_layer_config"] | SMALL}  # fmt: skip
    d2t, t2d = torch.tensor([0, 1, 1]), torch.tensor([True, False, True, True, False])
    return published.Published(config, shrunk | {"d2t": d2t, "t2d": t2d}).save(folder)


@pytest.mark.parametrize("kind", ["eagle", "mtp"])
def test_sampled_text_has_the_targets_law(kind, tmp_path):
    """The first two tokens of many sampled texts against the target's own joint law."""
    small = RandomLlamaTarget("random_llama", 3, 16, 2, 1, 32, vocab=5, context=64, tie=True, seed=2)
    checkpoint = open_checkpoint(small)
    rule = Sampled(Decoding("sample", 1.3, 0, 0.95))
    target = Decoder.load(checkpoint, AS_LOADED, 16)
    source = HeadSource(Head.load(open_head(small_head(kind, tmp_path), kind, checkpoint), AS_LOADED, 16), 5)
    prompt, trials, K = [1, 3], 4000, 2
    first = law(target.forward(prompt, target.new_cache())[-1], rule.decoding)
    joint = torch.stack([first[a] * law(target.forward([*prompt, a], target.new_cache())[-1], rule.decoding)
                         for a in range(5)])  # fmt: skip
    counts, drafted = torch.zeros(5, 5), 0
    generation = Generation(target, source, rule)
    for seed in range(trials):
        generation.begin(prompt, 1000 * seed, 2)
        while not generation.finished:
            drafted += generation.cycle(K).drafted
        counts[tuple(generation.text[2:4])] += 1
    assert drafted >= trials * K
    law_of_two = counts / trials
    assert 0.5 * float((law_of_two.sum(1) - first).abs().sum()) < 0.025  # noise: about 0.013, and 0.025 for two
    assert 0.5 * float((law_of_two - joint).abs().sum()) < 0.045


def test_the_ngram_drafts_where_it_hits_and_the_head_elsewhere(target, source_of, plain):
    head = source_of("mtp")
    source = FallbackSource(NgramSource(3, 3, "latest"), head)
    generation = Generation(target[0], source, Greedy())
    prompt = [5, 6, 7, 8, 9, 10, 5, 6, 7]
    generation.begin(prompt, 0, 40)
    assert source.draft(3, Greedy().draw).tokens == [8, 9, 10] and head.known == len(prompt) - 2  # the last pair waits
    source.accept(0)
    generation.begin(PROMPT, 0, 40)
    source.drafted = dict.fromkeys(source.drafted, 0)
    while not generation.finished:
        generation.cycle(3)
    by_ngram, by_head = source.drafted.values()
    assert by_head > 0
    mean = head.bytes_per_draft(30) * by_head / (by_ngram + by_head)
    assert source.bytes_per_draft(30) == pytest.approx(mean)
