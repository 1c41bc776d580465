"""Greedy text under speculation against plain decoding, on whatever device there is, format by format.

    python scripts/gpu_equality.py [--recipes bf16,int8_all,...] [--layers 2] [--hidden 64] ...

Random weights in the shape given. Plain decoding by the host's cycle is what each static cycle must repeat: plain, and
with 1 to `--drafts` drafts of an int8 copy of the target, of n-grams, and at temperature 1 with a fixed seed to see
that sampling runs and repeats itself. On a GPU every cycle is a replayed graph. Exits with 1 where a text differs.
"""

import argparse
import json
import sys

import torch

from acctax import ops
from acctax.config import Decoding, RandomLlamaTarget
from acctax.decode.cycle import Generation
from acctax.decode.rules import Greedy, Rule, Sampled
from acctax.decode.static import StaticGeneration
from acctax.draft.decoder_source import DecoderSource
from acctax.draft.ngram import NgramSource
from acctax.draft.none import NoSource
from acctax.models.checkpoint import open_checkpoint
from acctax.models.decoder import Decoder
from acctax.quant import recipes

RECIPES = "bf16,fp8,int8_all,int4,nvfp4_all,mxfp4,nf4"
SAMPLE = Sampled(Decoding("sample", temperature=1.0, top_k=50, top_p=0.95))


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--recipes", default=RECIPES)
    parser.add_argument("--length", type=int, default=64, help="tokens a text")
    parser.add_argument("--drafts", type=int, default=5)
    small = {"layers": 2, "hidden": 64, "heads": 4, "kv-heads": 2, "intermediate": 128, "vocab": 256}
    for name, size in small.items():
        parser.add_argument(f"--{name}", type=int, default=size)
    return parser.parse_args()


def write(generation: Generation, prompt: list[int], K: int, length: int) -> list[int]:
    generation.begin(prompt, 7, length)
    while not generation.finished:
        generation.cycle(K)
    return generation.text


def main() -> None:
    asked = arguments()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    ops.load_cuda() if device == "cuda" else ops.load()
    checkpoint = open_checkpoint(RandomLlamaTarget(
        "random_llama", asked.layers, asked.hidden, asked.heads, asked.kv_heads, asked.intermediate, asked.vocab,
        context=1024, tie=True, seed=1))  # fmt: skip
    prompt = [i * 37 % asked.vocab for i in range(40)]
    capacity = len(prompt) + asked.length + asked.drafts + 1

    def decoder(recipe: str) -> Decoder:
        return Decoder.load(checkpoint, recipes.load(recipe), capacity, device=device)

    drafter, differing, compared = decoder("int8_all"), [], 0
    for recipe in asked.recipes.split(","):
        target = decoder(recipe)

        def text(make, K: int, rule: Rule) -> list[int]:
            return write(StaticGeneration(target, make(), rule, (), asked.drafts), prompt, K, asked.length)

        def ours() -> DecoderSource:
            return DecoderSource(drafter, asked.vocab)

        plain = write(Generation(target, NoSource(), Greedy()), prompt, 0, asked.length)
        texts = {"plain": text(NoSource, 0, Greedy())}
        for K in range(1, asked.drafts + 1):
            texts[f"self K={K}"] = text(ours, K, Greedy())
            texts[f"ngram K={K}"] = text(lambda: NgramSource(1, 3, "latest"), K, Greedy())
        wrong = [how for how, written in texts.items() if written != plain]
        if text(ours, asked.drafts, SAMPLE) != text(ours, asked.drafts, SAMPLE):
            wrong.append("sampled twice")
        compared += len(texts) + 1
        differing += [f"{recipe}: {how}" for how in wrong]
        print(f"{recipe}: {len(texts) + 1 - len(wrong)} of {len(texts) + 1} texts equal", flush=True)
    print(json.dumps({"device": device, "texts": compared, "differing": differing}))
    sys.exit(bool(differing))


if __name__ == "__main__":
    main()
