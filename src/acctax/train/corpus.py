"""The data of a run: written once by as many processes as there are cores, shared by the heads of one target."""

import fcntl
import itertools
import json
import multiprocessing
import os
import resource
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import torch

from acctax import ops
from acctax.errors import ConfigError
from acctax.measure.workload import load
from acctax.models.checkpoint import Checkpoint, open_checkpoint
from acctax.progress import Progress
from acctax.train.config import TrainRun
from acctax.train.dialogue import Script, prompt_scripts, template_script
from acctax.train.features import BYTES, ShardWriter, Stored, read_shards, tokens_of
from acctax.train.generator import Generator
from acctax.train.synthesis import Job, Limits, Writer

TRAIN, HELD_OUT, EVALUATE = PARTS = ("train", "held_out", "evaluate")
JUDGED_AT = (0.0, 1.0)  # temperatures of the texts that acceptance is reported on
POLL_SECONDS = 0.2  # how often the writing processes are looked after
INDEX_BYTES = 48  # of a token's line in the index, at most


def captured_layers(layers: int) -> tuple[int, ...]:
    """EAGLE-3's three: early, middle, and what enters the last layer, which a small target's last layers change much.

    i: the hidden state that enters layer i. The state behind the last layer is not among them: engines differ on
    whether its number stands for it before or after the final norm.
    """
    return tuple(sorted({i for i in (min(2, layers // 2 - 1), layers // 2, layers - 1) if i >= 0}))


@dataclass(frozen=True)
class Corpus:
    width: int  # values of a row: the captured hidden states, then the last one after the final norm
    train: list[Stored]
    held_out: list[Stored]
    evaluate: list[Stored]
    seconds: float  # that writing took
    peak_bytes: int  # of memory, all writing processes together


@dataclass(frozen=True)
class Plan:
    """What is to be written; `longest` tokens a conversation."""

    scripts: list[Script]  # one of the target's own, or those of the prompts
    evaluate: list[Script]
    longest: int


def plan(run: TrainRun, checkpoint: Checkpoint) -> Plan:
    """Raises ConfigError where the target cannot write what is asked for."""
    data, context = run.data, checkpoint.config.context
    longest_prompt = context - data.answer_tokens
    if data.prompts is None:
        scripts = [template_script(checkpoint)]
    else:
        scripts = prompt_scripts(_prompts(data.prompts, "data.prompts"), checkpoint, longest_prompt)
        if len(scripts) <= data.held_out:
            allowed = f"must hold more than data.held_out={data.held_out} prompts of at most {longest_prompt} tokens"
            raise ConfigError("data.prompts", data.prompts, f"{allowed}, not {len(scripts)}")
    evaluate = [] if data.evaluate is None else prompt_scripts(
        _prompts(data.evaluate, "data.evaluate"), checkpoint, longest_prompt)
    longest = max(
        len(script.opening) + (0 if script.bridge is None else data.question_tokens + len(script.bridge))
        for script in scripts + evaluate
    ) + data.answer_tokens
    if longest > context:
        allowed = f"question and answer, {longest} tokens, must fit the target's context of {context}"
        raise ConfigError("data.answer_tokens", data.answer_tokens, allowed)
    return Plan(scripts, evaluate, longest)


def _prompts(path: str, field: str):
    try:
        return load(Path(path).expanduser())
    except ConfigError as error:
        raise ConfigError(field, error.value, error.allowed) from error


def jobs(run: TrainRun, its_plan: Plan, checkpoint: Checkpoint) -> Iterator[Job]:
    """Every conversation in the order it is begun; without end where the target writes the questions."""
    data, cycle = run.data, run.data.temperatures
    for i, (script, temperature) in enumerate(itertools.product(its_plan.evaluate, JUDGED_AT)):
        yield Job(EVALUATE, i, temperature, script)
    if data.prompts is None:
        [script] = its_plan.scripts
        openers = [tuple(checkpoint.tokenizer.encode(o, add_special_tokens=False)) for o in data.openers]
        for i in range(data.held_out):
            yield Job(HELD_OUT, i, JUDGED_AT[i % 2], script)
        for i in itertools.count():
            turn, place = divmod(i, len(cycle))
            opener = ()
            if openers and turn % 2 == 1:
                opened = turn // 2 * len(cycle) + place
                opener = openers[(opened + opened // len(openers)) % len(openers)]  # each meets every temperature
            yield Job(TRAIN, i, cycle[place], script, opener)
    else:
        held_out, train = its_plan.scripts[: data.held_out], its_plan.scripts[data.held_out :]
        for i, script in enumerate(held_out):
            yield Job(HELD_OUT, i, JUDGED_AT[i % 2], script)
        for turn in range(len(cycle)):
            for i, script in enumerate(train):
                yield Job(TRAIN, turn * len(train) + i, cycle[(i + turn) % len(cycle)], script)


def row_width(checkpoint: Checkpoint) -> int:
    return (len(captured_layers(len(checkpoint.config.layers))) + 1) * checkpoint.config.hidden


def make(run: TrainRun, checkpoint: Checkpoint, progress: Progress) -> Corpus:
    """Write what is missing of the data, then read its index. Raises ConfigError for a folder of another recipe."""
    folder, wanted = run.data_folder, run.data.tokens
    folder.mkdir(parents=True, exist_ok=True)
    with _alone(folder, progress):
        state = _state(run, checkpoint, folder)
        if state["complete"] < wanted:
            before = state["seconds"]
            for seconds in _write(run, progress):
                _store(folder, state := state | {"seconds": before + seconds})
            peak = run.data.workers * peak_bytes(resource.RUSAGE_CHILDREN)
            _store(folder, state := state | {"complete": wanted, "peak_bytes": max(state["peak_bytes"], peak)})
    train, limit = [], 0
    for stored in read_shards(folder, TRAIN):
        if limit >= wanted:
            break
        train.append(stored)
        limit += stored.conversation.answer_tokens
    if not train or not (held_out := read_shards(folder, HELD_OUT)):
        raise ConfigError("data.disk_gb", run.data.disk_gb, "must hold the conversations held out and some to train on")
    evaluate = read_shards(folder, EVALUATE)
    return Corpus(row_width(checkpoint), train, held_out, evaluate, state["seconds"], state["peak_bytes"])


def peak_bytes(who: int) -> int:
    """Of resource.RUSAGE_SELF, or of the largest of RUSAGE_CHILDREN."""
    return (1 if sys.platform == "darwin" else 1024) * resource.getrusage(who).ru_maxrss


@contextmanager
def _alone(folder: Path, progress: Progress) -> Iterator[None]:
    """Of the runs that share a folder one writes, the others wait."""
    with open(folder / "lock", "w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            progress.note(f"another run is writing {folder}: waiting")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _state(run: TrainRun, checkpoint: Checkpoint, folder: Path) -> dict:
    """What the folder's data is, the number of tokens it was written for, and what that took."""
    layers = captured_layers(len(checkpoint.config.layers))
    recipe = {"target": run.target.label, "seed": run.seed, "layers": layers, **run.data.recipe}
    recipe = json.loads(json.dumps(recipe))
    path = folder / "corpus.json"
    if not path.is_file():
        _store(folder, {"recipe": recipe, "complete": 0, "seconds": 0.0, "peak_bytes": 0})
    state = json.loads(path.read_text())
    for name, value in recipe.items():
        if state["recipe"].get(name) != value:
            raise ConfigError("data.folder", folder, f"holds data of {name}={state['recipe'].get(name)}, not {value}: "
                              "choose another folder, or remove it")
    return state


def _store(folder: Path, state: dict) -> None:
    """Whole or not at all, whatever kills the writer."""
    written = folder / "corpus.json.new"
    written.write_text(json.dumps(state, indent=1) + "\n")
    written.replace(folder / "corpus.json")


def _write(run: TrainRun, progress: Progress) -> Iterator[float]:
    """Yields the seconds that it has taken, now and then and at the end: what a killed run wrote took its time too."""
    started = time.monotonic()
    ops.load()  # built here once, not by every process
    context, workers = multiprocessing.get_context("spawn"), run.data.workers
    written = context.Array("q", workers, lock=False)
    processes = [context.Process(target=_work, args=(run, i, written, os.getpid())) for i in range(workers)]
    try:
        for process in processes:
            process.start()
        with progress.phase("write", total=run.data.tokens) as phase:
            while any(process.is_alive() for process in processes):
                time.sleep(POLL_SECONDS)
                phase.advance(sum(written) - phase.advanced)
                yield time.monotonic() - started
    finally:
        for process in processes:
            if process.is_alive():
                process.terminate()
            process.join()
    for process in processes:
        if process.exitcode:
            raise RuntimeError(f"a process that writes the data ended with code {process.exitcode}")
    yield time.monotonic() - started


def _work(run: TrainRun, worker: int, written, parent: int) -> None:
    """One of the processes: every `workers`-th of the jobs that nobody has done yet."""
    torch.set_num_threads(1)
    ops.load()
    checkpoint, data, folder = open_checkpoint(run.target), run.data, run.data_folder
    its_plan, layers = plan(run, checkpoint), captured_layers(len(checkpoint.config.layers))
    row_bytes = row_width(checkpoint) * BYTES + INDEX_BYTES
    done = {part: {s.conversation.number for s in read_shards(folder, part)} for part in PARTS}
    before = tokens_of(read_shards(folder, TRAIN))
    mine = (job for i, job in enumerate(jobs(run, its_plan, checkpoint)) if i % data.workers == worker)
    missing = (job for job in mine if job.number not in done[job.part])
    shards = {part: ShardWriter(folder, f"{part}-{worker}", row_width(checkpoint)) for part in PARTS}
    share, budget = (data.tokens - before) / data.workers, 1e9 * data.disk_gb / data.workers
    generator = Generator(checkpoint, data.slots + 1, its_plan.longest + 1, layers)
    limits = Limits(data.question_tokens, data.question_top_p, data.answer_tokens)
    writer = Writer(generator, missing, limits, checkpoint.stop_tokens, shards, its_plan.longest + 1, run.seed)
    start = shards[TRAIN].answer_tokens

    def enough(answered: int, rows: int) -> bool:
        if os.getppid() != parent:
            os._exit(1)  # killed: what was being written is begun again by who comes next
        new = shards[TRAIN].answer_tokens - start + answered
        written[worker] = before // data.workers + new
        full = sum(shard.rows for shard in shards.values()) + rows + data.slots
        return new >= share or full * row_bytes > budget

    writer.write(enough)
    for shard in shards.values():
        shard.close()
