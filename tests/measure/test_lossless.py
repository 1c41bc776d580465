"""Greedy text under speculation is plain decoding's, and a cycle that makes another is found out."""

import pytest
import torch

from acctax import ops
from acctax.analyze.rows import analyze
from acctax.config import AS_LOADED, RandomLlamaTarget
from acctax.decode import rules
from acctax.decode.cycle import Generation
from acctax.decode.rules import Greedy
from acctax.draft.ngram import NgramSource
from acctax.measure.job import measure
from acctax.measure.lossless import ROWS, verify
from acctax.models.checkpoint import open_checkpoint
from acctax.models.decoder import Decoder
from acctax.progress import Progress

TARGET = RandomLlamaTarget("random_llama", 2, 64, 4, 2, 128, vocab=50, context=256, tie=True, seed=3)
SMALL = ["target=random_llama", "measure.prompts=5", "measure.max_new_tokens=12", "measure.rounds=2",
         "measure.cycles=1", "K=2"]  # fmt: skip
PROMPT, ANSWER = [3, 1, 4, 1, 5], 2 * ROWS + 5


@pytest.fixture
def job(compose):
    return lambda *overrides: measure(compose(*SMALL, *overrides), Progress.silent())


@pytest.fixture
def generation():
    ops.load()
    target = Decoder.load(open_checkpoint(TARGET), AS_LOADED, 128)
    generation = Generation(target, NgramSource(1, 3, "earliest"), Greedy())
    generation.begin(PROMPT, 0, ANSWER)
    while not generation.finished:
        generation.cycle(3)
    return generation


@pytest.mark.parametrize("i", [0, 3])  # row by row, and in wide passes
def test_a_text_that_holds(generation, i):
    verified = verify(generation, len(PROMPT), i, "candidate", "p")
    assert verified.holds and verified.tokens == ANSWER and verified.logit_gap == 0


@pytest.mark.parametrize("i", [0, 3])
@pytest.mark.parametrize("at", [0, 7, ROWS, ANSWER - 1])
def test_a_token_that_the_target_would_not_have_chosen(generation, i, at):
    text = generation.text
    logits = generation.target.forward(text[: len(PROMPT) + at], generation.target.new_cache(), last=1)[0]
    own, second = torch.topk(logits, 2).indices.tolist()
    assert own == text[len(PROMPT) + at]
    text[len(PROMPT) + at] = second
    verified = verify(generation, len(PROMPT), i, "candidate", "p")
    assert (verified.diverged_at, verified.tokens) == (at, at + 1)
    assert verified.logit_gap == float(logits[own] - logits[second]) > 0


def test_every_greedy_cell_is_verified(job):
    record = job("target_quant=nvfp4")
    names = [prompt.prompt_id for prompt in record.reference.prompts]
    verified = [(it.arm, it.prompt_id) for it in record.losslessness]
    assert sorted(verified) == sorted((arm, names[i]) for arm in ("reference", "candidate") for i in (0, 3))
    assert all(it.holds and it.tokens == 12 for it in record.losslessness)


@pytest.mark.parametrize("overrides", [["decoding=sample"], ["draft_source=none", "K=0"], ["draft_source=synthetic"]])
def test_what_has_no_text_to_compare(job, overrides):
    assert job(*overrides).losslessness == []


def test_a_rule_that_keeps_a_wrong_draft_makes_the_cell_invalid(job, monkeypatch):
    monkeypatch.setattr(rules, "accept_greedy", lambda best, drafts: (len(drafts), best[-1]))
    row = analyze(job("draft_source.recipe=nvfp4_all", "target.seed=3"))
    assert row.verdict == "INVALID" and "departs from plain decoding at token" in row.reason
