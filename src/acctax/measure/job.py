"""One cell, measured against its reference in one process."""

import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace

import torch

from acctax import environment, ops
from acctax.config import Cell
from acctax.errors import ConfigError
from acctax.measure import looks, same_context
from acctax.measure.arms import Arm, build_arm, setting_of
from acctax.measure.clock import clock
from acctax.measure.decoding import decode_all
from acctax.measure.gauges import forget_memory_peak, memory_peak
from acctax.measure.workload import Prompt, load, render
from acctax.models.checkpoint import Checkpoint, open_checkpoint
from acctax.ops.toolchain import BuildError
from acctax.progress import Progress
from acctax.quant import panels, recipes
from acctax.record import Arm as ArmRecord
from acctax.record import Lossless, PromptRecord, Record, Round, Scored

DEFAULT_THREADS = torch.get_num_threads()  # one per physical core, unless the user's environment says otherwise
_last_arms: list[Arm] = []  # of the cell before: what both cells store alike is packed once


def preflight(cell: Cell) -> None:
    """Everything that can be known before a weight is packed. Raises ConfigError."""
    checkpoint = open_checkpoint(cell.target)
    recipes.assign(cell.target_quant, checkpoint.config.linears())
    _check_kernels(cell)
    checkpoint.check_files()
    if cell.decoding.top_k > checkpoint.config.vocab:
        raise ConfigError("decoding.top_k", cell.decoding.top_k,
                          f"must be at most {checkpoint.config.vocab}, the target's vocabulary; 0 keeps all of it")
    prompts = prompts_of(cell, checkpoint)
    capacity = capacity_of(cell, checkpoint, prompts)
    cell.draft_source.check(setting_of(cell, checkpoint, capacity))


def _check_kernels(cell: Cell) -> None:
    if cell.device.name == "cuda":
        for rule in (*cell.target_quant.rules, *(cell.drafter_quant.rules if cell.drafter_quant else ())):
            if rule.format not in panels.FORMATS:
                ready = ", ".join(sorted(panels.FORMATS))
                allowed = f"must be one of {ready} with device=cuda"
                raise ConfigError("format", rule.format, allowed)


def set_up(cell: Cell) -> dict[str, str]:
    """Bring in the kernels and threads that a cell asks for; says which they are, for the record."""
    torch.set_num_threads(cell.device.threads or DEFAULT_THREADS)
    threads = {"threads": str(torch.get_num_threads())}
    if cell.device.name == "cpu":
        ops.load(cell.device.kernels)
        return threads | {"kernels": ops.backend()}
    try:
        ops.load_cuda()
    except (BuildError, OSError) as error:
        raise ConfigError("device", "cuda", f"needs its kernels ({error})") from error
    return threads | {"kernels": ops.backend("cuda"), "hardware": environment.gpu()}


def measure(cell: Cell, progress: Progress, wanted: Callable[[Record], Collection[str]] = lambda record: ()) -> Record:
    """Decode prompts with both arms, clock both, count their bytes.

    wanted: of a record, the units ("prompts", "rounds") that its verdict is short of. Within the cell's budget, if it
    has one, they are added and the record is shown again, at the looks of `looks.schedule` and no others.
    """
    started = time.monotonic()
    job = _Job(cell, progress)
    schedule = looks.schedule(cell.measure, len(job.prompts))
    job.grow(schedule[0])
    for look, size in enumerate(schedule[1:] + [{}], start=1):
        record = job.record(len(schedule))
        if cell.measure.budget is None:
            return record
        spent = time.monotonic() - started > cell.measure.budget.seconds
        if not (short := wanted(record)):
            return replace(record, stopped_because=f"decided at look {look} of {len(schedule)}, {job.done}")
        if spent or not job.grow({unit: size.get(unit, 0) for unit in short}):
            what = ("seconds",) if spent else sorted(short)
            limits = " ".join(f"measure.budget.{it}={getattr(cell.measure.budget, it):g}" for it in what)
            return replace(record, stopped_because=f"{limits} spent, {job.done}")


class _Job:
    """Both arms of a cell and what has been measured of them so far."""

    def __init__(self, cell: Cell, progress: Progress):
        self.cell, self.progress = cell, progress
        self.runs_on = set_up(cell)
        checkpoint = open_checkpoint(cell.target)
        self.prompts = prompts_of(cell, checkpoint)
        capacity = capacity_of(cell, checkpoint, self.prompts)
        self.arms = []
        with progress.phase("load", total=2) as phase:
            for its_cell in (cell.reference(), cell):
                self.arms.append(build_arm(its_cell, capacity))
                phase.advance()
        _last_arms[:] = self.arms
        self.generations = [arm.speculative() for arm in self.arms]
        self.decoded: list[list[PromptRecord]] = [[], []]
        self.rounds: list[list[Round]] = [[], []]
        self.bandwidth: list[float] = []
        self.memory_peak = 0
        self.scored: list[Scored] = []
        self.losslessness: list[Lossless] = []

    @property
    def done(self) -> str:
        looped = sum(prompt.looped for prompt in self.decoded[0])
        loops = f" ({looped} loop and do not count)" if looped else ""
        return f"{len(self.decoded[0])} prompts{loops} and {len(self.bandwidth)} rounds"

    def grow(self, size: Mapping[str, int]) -> bool:
        """Decode and clock until there are that many; whether there was anything to do."""
        prompts, rounds = len(self.decoded[0]), len(self.bandwidth)
        if grows := size.get("prompts", 0) > prompts:
            self._decode(prompts, size["prompts"])
        if size.get("rounds", 0) > rounds:
            self._clock(range(rounds, size["rounds"]))
            grows = True
        return grows

    def _decode(self, first: int, until: int) -> None:
        cell, prompts = self.cell, self.prompts[:until]
        forget_memory_peak(cell.device.name)  # neither what packing took nor the buffers of the clock
        decoded, verified = decode_all(
            self.generations, prompts, cell.K, cell.measure.max_new_tokens, cell.seed, self.progress, first
        )
        for its, more in zip(self.decoded, decoded):
            its += more
        self.losslessness += verified
        self.memory_peak = max(self.memory_peak, memory_peak(cell.device.name))
        if not cell.draft_source.forces_acceptance:  # such text is nobody's
            texts = [tokens for _, tokens in prompts[first:]]
            self.scored += same_context.score(self.arms, texts, decoded[0], cell.K, cell.decoding, self.progress)

    def _clock(self, numbers: range) -> None:
        cell = self.cell
        texts = [tokens for _, tokens in self.prompts[: cell.measure.prompts]]
        rounds, bandwidth = clock(self.arms, texts, cell.K, numbers, cell.measure.cycles, cell.seed, self.progress)
        for its, more in zip(self.rounds, rounds):
            its += more
        self.bandwidth += bandwidth

    def record(self, looks: int) -> Record:
        cell, context = self.cell, mean_context(self.decoded[0])
        measured = zip(self.arms, self.decoded, self.rounds)
        reference, candidate = (_arm_record(arm, cell.K, context, list(d), list(r)) for arm, d, r in measured)
        return Record(
            choices=cell.choices(),
            cell_id=cell.cell_id,
            is_reference=cell.is_reference,
            reference=reference,
            candidate=candidate,
            bandwidth=list(self.bandwidth),
            environment=environment.describe() | self.runs_on,
            rerun=cell.rerun_command,
            same_context=list(self.scored),
            losslessness=list(self.losslessness),
            looks=looks,
            memory_peak=self.memory_peak,
        )


def prompts_of(cell: Cell, checkpoint: Checkpoint) -> list[tuple[Prompt, list[int]]]:
    """As many as may be decoded."""
    budget = cell.measure.budget
    prompts = load(cell.workload.file, budget.prompts if budget else cell.measure.prompts)
    return [(prompt, render(prompt, checkpoint.tokenizer)) for prompt in prompts]


def capacity_of(cell: Cell, checkpoint: Checkpoint, prompts: list[tuple[Prompt, list[int]]]) -> int:
    """Rows of the longest text: its prompt, its answer or its clocked cycles, and the drafts of a last cycle."""
    context = checkpoint.config.context
    if cell.K >= context:
        raise ConfigError("K", cell.K, f"must be below the target's context of {context} tokens")
    answer = max(cell.measure.max_new_tokens, cell.measure.cycles * (cell.K + 1)) + cell.K + 1
    longest, tokens = max(prompts, key=lambda prompt: len(prompt[1]))
    if len(tokens) + answer > context:
        raise ConfigError(
            "workload", f"{cell.workload.path} ({longest.id}: {len(tokens)} tokens)",
            f"prompt, answer and drafts ({answer} more) must fit the target's context of {context} tokens",
        )  # fmt: skip
    return len(tokens) + answer


def mean_context(records: list[PromptRecord]) -> int:
    return round(sum(r.prompt_tokens + len(r.tokens) / 2 for r in records) / len(records))


def _arm_record(arm: Arm, K: int, context: int, prompts: list[PromptRecord], rounds: list[Round]) -> ArmRecord:
    return ArmRecord(prompts, rounds, arm.bytes_ar(context), arm.bytes_cycle(K, context))
