"""What is scored along a text is what decoding does there, and what a brute-force reading of the text says."""

import pytest
import torch

from acctax import ops
from acctax.config import AS_LOADED, Decoding, HubTarget
from acctax.decode.cycle import Generation
from acctax.decode.rules import rule_of
from acctax.decode.sampling import law
from acctax.draft.decoder_source import DecoderSource
from acctax.draft.fallback import FallbackSource
from acctax.draft.heads.checkpoint import open_head
from acctax.draft.heads.head import Head
from acctax.draft.heads.source import HeadSource
from acctax.draft.ngram import NgramSource
from acctax.draft.none import NoSource
from acctax.draft.source import DraftSource
from acctax.measure.arms import Arm
from acctax.measure.decoding import decode_all
from acctax.measure.same_context import UNCUT, follow, read, score
from acctax.measure.workload import Prompt
from acctax.models.checkpoint import open_checkpoint
from acctax.models.decoder import Decoder
from acctax.progress import Progress
from acctax.quant import recipes
from tests.draft.heads import published
from tests.tiny import save_model

VOCAB = published.TARGET.vocab_size
GREEDY, SAMPLED = Decoding("greedy", 0.0, 0, 1.0), Decoding("sample", 0.9, 40, 0.95)
PROMPTS = [[5, 6, 7, 8, 5, 6], [9], [11, 12]]
K, ANSWER = 3, 30
SOURCES = ["self", "mtp", "eagle", "ngram", "fallback"]


@pytest.fixture(scope="module")
def arm(tmp_path_factory):
    """arm(recipe of the target, source, decoding)"""
    ops.load()
    folder = tmp_path_factory.mktemp("arms")
    save_model(published.TARGET, folder)
    checkpoint = open_checkpoint(HubTarget("hf", str(folder)))
    heads = {"mtp": published.mtp_speculators().save(folder / "mtp"),
             "eagle": published.eagle3_speculators().save(folder / "eagle")}  # fmt: skip

    def head(kind):
        return HeadSource(Head.load(open_head(heads[kind], kind, checkpoint), AS_LOADED, 64), VOCAB)

    def source(name):
        if name == "self":
            return DecoderSource(Decoder.load(checkpoint, recipes.load("nvfp4_all"), 64), VOCAB)
        if name == "fallback":
            return FallbackSource(source("ngram"), head("mtp"))
        return NgramSource(1, 3, "earliest") if name == "ngram" else head(name)

    def make(recipe, name, decoding):
        target = Decoder.load(checkpoint, recipes.load(recipe), 64)
        return Arm(target, source(name) if name else NoSource(), rule_of(decoding), frozenset())

    return make


def written(arm, decoding):
    """What an arm writes, and the cycles it took."""
    prompts = [(Prompt(str(i), "test", ("",)), prompt) for i, prompt in enumerate(PROMPTS)]
    (records,), _ = decode_all([arm.speculative()], prompts, K, ANSWER, 0, Progress.silent())
    return records


def along(arm, record, prompt, decoding):
    text = prompt + record.tokens
    logits, features = read(arm, text, len(prompt))
    return follow(arm, text, len(prompt), features, [logits, logits], K, decoding)


@pytest.mark.parametrize("name", SOURCES)
def test_a_greedy_chain_accepts_what_a_cycle_accepts_there(arm, name):
    its = arm("bf16", name, GREEDY)
    compared = 0
    for record, prompt in zip(written(its, GREEDY), PROMPTS):
        _, alive = along(its, record, prompt, GREEDY)
        assert len(alive) == ANSWER - K + 1
        t = 0
        for drafted, accepted, committed in zip(record.drafted, record.accepted, record.committed):
            if t < len(alive) and drafted:
                assert alive[t].tolist() == [1.0] * accepted + [0.0] * (K - accepted)
                compared += 1
            t += committed
    assert compared >= 3


@pytest.mark.parametrize("name", SOURCES)
def test_drafts_along_a_text_are_those_of_a_source_that_reads_it_afresh(arm, name):
    its = arm("bf16", name, SAMPLED)
    record, prompt = written(its, SAMPLED)[0], PROMPTS[0]
    text = prompt + record.tokens

    def draw(logits, generator):
        return int(logits.argmax()), law(logits, SAMPLED)

    _, features = read(its, text, len(prompt))
    drafts = list(its.source.follow(text, len(prompt), features, K, draw))
    assert len(drafts) == ANSWER - K + 1
    for t, draft in zip(range(len(prompt), len(text)), drafts):
        its.source.begin(text[:t], 0, None if features is None else features[: t - 1])
        afresh = its.source.draft(K, draw, text[t : t + K])
        assert draft.tokens == afresh.tokens
        assert (draft.q is None and afresh.q is None) or torch.equal(draft.q, afresh.q)


def test_a_decoder_follows_a_text_in_chunks_as_it_does_draft_by_draft(arm):
    its = arm("bf16", "self", SAMPLED)
    text = PROMPTS[0] + written(its, SAMPLED)[0].tokens

    def draw(logits, generator):
        return int(logits.argmax()), logits

    quick = its.source.follow(text, 6, None, K, draw)
    slow = DraftSource.follow(its.source, text, 6, None, K, draw)
    for a, b in zip(quick, slow, strict=True):
        assert a.tokens == b.tokens and torch.equal(a.q, b.q)


def test_the_targets_are_compared_at_every_position(arm):
    reference, candidate = arm("bf16", None, SAMPLED), arm("nvfp4", None, SAMPLED)
    records = written(reference, SAMPLED)
    scored = score([reference, candidate], PROMPTS, records, 0, SAMPLED, Progress.silent())
    for its, record, prompt in zip(scored, records, PROMPTS):
        text = prompt + record.tokens
        p, q = (target.forward(text[:-1], target.new_cache())[len(prompt) - 1 :].double().softmax(-1)
                for target in (reference.target, candidate.target))  # fmt: skip
        assert its.positions == ANSWER and its.chains == 0
        assert its.tv == pytest.approx(float((p - q).clamp_min(0).sum()), rel=1e-4) and its.tv > 0
        assert its.kl == pytest.approx(float((p * (p / q).log()).sum()), rel=1e-4)
        assert its.agree == int((p.argmax(-1) == q.argmax(-1)).sum())
        at = torch.arange(ANSWER), torch.tensor(record.tokens)
        assert its.nll_reference == pytest.approx(-float(p[at].log().sum()), rel=1e-4)
        assert its.nll_candidate == pytest.approx(-float(q[at].log().sum()), rel=1e-4)


@pytest.mark.parametrize("name", SOURCES)
def test_an_arm_beside_itself_differs_in_nothing(arm, name):
    its = arm("bf16", name, GREEDY)
    for scored in score([its, its], PROMPTS, written(its, GREEDY), K, GREEDY, Progress.silent()):
        assert scored.reference == scored.candidate
        assert (scored.tv, scored.kl, scored.agree) == (0.0, 0.0, scored.positions)


def test_sampled_acceptance_along_texts_is_what_chains_that_are_decoded_get(arm):
    """Two drafts after one prompt: the mean over texts of the reference against drafting from the candidate itself."""
    decoding, trials, K = UNCUT, 1500, 2
    reference, candidate = arm("bf16", "mtp", decoding), arm("nvfp4", "mtp", decoding)
    prompt, alive = PROMPTS[0], torch.zeros(trials, K)
    writer, decoder = Generation(reference.target, NoSource(), reference.rule), candidate.speculative()
    accepted = torch.zeros(trials, K)
    for i in range(trials):
        writer.begin(prompt, i, K)
        for _ in range(K):
            writer.cycle(0)
        (r, _), (p, features) = read(reference, writer.text, 6), read(candidate, writer.text, 6)
        alive[i] = follow(candidate, writer.text, 6, features, [r, p], K, decoding)[1][0]
        decoder.begin(prompt, trials + i, K + 1)
        accepted[i, : decoder.cycle(K).accepted] = 1
    error = (alive.var(0) / trials + accepted.var(0) / trials).sqrt()
    assert (error < 0.03).all()
    assert ((alive.mean(0) - accepted.mean(0)).abs() < 3.5 * error).all()
