"""A source whose acceptance is given: what is drawn is what was asked for, and what is kept is what was drawn."""

from itertools import islice

import pytest
import torch

from acctax import ops, theory
from acctax.config import AS_LOADED, RandomLlamaTarget
from acctax.decode.cycle import Generation
from acctax.decode.rules import Forced, Greedy
from acctax.draft.decoder_source import DecoderSource
from acctax.draft.none import NoSource
from acctax.draft.synthetic import SyntheticSource, drawn, replayed
from acctax.models.checkpoint import open_checkpoint
from acctax.models.decoder import Decoder
from acctax.quant import recipes

TARGET = RandomLlamaTarget("random_llama", 2, 64, 4, 2, 128, vocab=50, context=256, tie=True, seed=3)


def seeded(seed):
    return torch.Generator().manual_seed(seed)


def cycles(source, K, n, seed=0):
    ops.load()
    generation = Generation(Decoder.load(open_checkpoint(TARGET), AS_LOADED, 250), source, Forced(Greedy()))
    generation.begin([1, 2, 3], seed, 240)
    return generation, [generation.cycle(K) for _ in range(n)]


def test_lengths_have_the_given_acceptance_by_position():
    lengths = torch.tensor(list(islice(drawn([0.8, 0.5, 0.9])(seeded(1)), 40_000)))
    reached = [float((lengths >= i).float().mean()) for i in range(4)]
    assert reached[1:] == pytest.approx([0.8, 0.4, 0.36], abs=0.01)
    constant = torch.tensor(list(islice(drawn([0.7] * 4)(seeded(1)), 40_000))).float()
    assert 1 + float(constant.mean()) == pytest.approx(float(theory.tau(0.7, 4)), abs=0.02)


def test_certain_drafts_are_all_kept_and_hopeless_ones_never():
    assert set(islice(drawn([1.0, 1.0])(seeded(0)), 500)) == {2}
    assert set(islice(drawn([0.0, 1.0])(seeded(0)), 500)) == {0}


def test_recorded_lengths_keep_their_order():
    recorded = [0, 1, 2, 3, 4, 5, 6]
    starts = set()
    for seed in range(50):
        replay = list(islice(replayed(recorded)(seeded(seed)), 14))
        assert replay[:7] == replay[7:] and replay[:7] in [recorded[i:] + recorded[:i] for i in range(7)]
        starts.add(replay[0])
    assert starts == set(recorded)


def test_the_cycle_keeps_what_was_drawn_and_the_target_says_what_follows():
    source = SyntheticSource(replayed([0, 3, 1]), NoSource(), TARGET.vocab)
    generation, done = cycles(source, 3, 20)
    lengths = [cycle.accepted for cycle in done]
    assert lengths[:3] in ([0, 3, 1], [3, 1, 0], [1, 0, 3]) and lengths[3:6] == lengths[:3]
    assert all(cycle.drafted == 3 and cycle.committed == cycle.accepted + 1 for cycle in done)
    logits = generation.target.forward(generation.text[:-1], generation.target.new_cache())
    position = len([1, 2, 3]) - 1
    for cycle in done:
        position += cycle.committed
        assert int(logits[position - 1].argmax()) == generation.text[position]


def test_the_same_seed_gives_the_same_lengths_for_every_K():
    lengths = [[cycle.accepted for cycle in cycles(SyntheticSource(drawn([0.7] * 4), NoSource(), 50), K, 30)[1]]
               for K in (4, 4, 2)]  # fmt: skip
    assert lengths[0] == lengths[1] and lengths[2] == [min(n, 2) for n in lengths[0]]


def test_another_sources_passes_are_made_and_its_state_goes_along():
    def drafter():
        return DecoderSource(Decoder.load(open_checkpoint(TARGET), recipes.load("nvfp4_all"), 250), TARGET.vocab)

    like = drafter()
    source = SyntheticSource(drawn([0.6] * 3), like, TARGET.vocab)
    generation, _ = cycles(source, 3, 20)
    fresh = drafter()
    fresh.begin(generation.text, 0, None)
    assert like.draft(3, Greedy().draw) == fresh.draft(3, Greedy().draw)
    assert source.bytes_per_draft(9) == like.bytes_per_draft(9) > 0
