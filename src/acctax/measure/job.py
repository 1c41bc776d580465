"""One cell, measured against its reference in one process."""

import torch

from acctax import environment, ops
from acctax.config import Cell
from acctax.errors import ConfigError
from acctax.measure import same_context
from acctax.measure.arms import Arm, build_arm, setting_of
from acctax.measure.clock import clock
from acctax.measure.decoding import decode_all
from acctax.measure.workload import Prompt, load, render
from acctax.models.checkpoint import Checkpoint, open_checkpoint
from acctax.models.ledger import pass_bytes
from acctax.progress import Progress
from acctax.quant import recipes
from acctax.record import Arm as ArmRecord
from acctax.record import PromptRecord, Record, Round

DEFAULT_THREADS = torch.get_num_threads()  # one per physical core, unless the user's environment says otherwise
_last_arms: list[Arm] = []  # of the cell before: what both cells store alike is packed once


def preflight(cell: Cell) -> None:
    """Everything that can be known before a weight is packed. Raises ConfigError."""
    checkpoint = open_checkpoint(cell.target)
    recipes.assign(cell.target_quant, checkpoint.config.linears())
    checkpoint.check_files()
    prompts = _prompts(cell, checkpoint)
    capacity = _capacity(cell, checkpoint, prompts)
    cell.draft_source.check(setting_of(cell, checkpoint, capacity))


def set_up(cell: Cell) -> dict[str, str]:
    """Bring in the kernels and threads that a cell asks for; says which they are, for the record."""
    torch.set_num_threads(cell.device.threads or DEFAULT_THREADS)
    ops.load(cell.device.kernels)
    return {"kernels": ops.backend(), "threads": str(torch.get_num_threads())}


def measure(cell: Cell, progress: Progress) -> Record:
    """Decode every prompt with both arms, clock both, count their bytes."""
    runs_on = set_up(cell)
    checkpoint = open_checkpoint(cell.target)
    prompts = _prompts(cell, checkpoint)
    capacity = _capacity(cell, checkpoint, prompts)
    with progress.phase("load", total=2) as phase:
        arms = []
        for its_cell in (cell.reference(), cell):
            arms.append(build_arm(its_cell, capacity))
            phase.advance()
    _last_arms[:] = arms
    generations = [arm.speculative() for arm in arms]
    decoded = decode_all(generations, prompts, cell.K, cell.measure.max_new_tokens, cell.seed, progress)
    texts = [tokens for _, tokens in prompts]
    rounds, bandwidth = clock(arms, texts, cell.K, cell.measure.rounds, cell.measure.cycles, cell.seed, progress)
    context = _mean_context(decoded[0])
    reference, candidate = (_arm_record(arm, cell.K, context, *its) for arm, *its in zip(arms, decoded, rounds))
    scored = same_context.score(arms, texts, decoded[0], cell.K, cell.decoding, progress)
    return Record(
        choices=cell.choices(),
        cell_id=cell.cell_id,
        is_reference=cell.is_reference,
        reference=reference,
        candidate=candidate,
        bandwidth=bandwidth,
        environment=environment.describe() | runs_on,
        rerun=cell.rerun_command,
        same_context=scored,
    )


def _prompts(cell: Cell, checkpoint: Checkpoint) -> list[tuple[Prompt, list[int]]]:
    prompts = load(cell.workload.file, cell.measure.prompts)
    return [(prompt, render(prompt, checkpoint.tokenizer)) for prompt in prompts]


def _capacity(cell: Cell, checkpoint: Checkpoint, prompts: list[tuple[Prompt, list[int]]]) -> int:
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


def _mean_context(records: list[PromptRecord]) -> int:
    return round(sum(r.prompt_tokens + len(r.tokens) / 2 for r in records) / len(records))


def _arm_record(arm: Arm, K: int, context: int, prompts: list[PromptRecord], rounds: list[Round]) -> ArmRecord:
    cycle = pass_bytes(arm.target, K + 1, context)
    cycle["drafter"] = K * arm.source.bytes_per_draft(context)
    return ArmRecord(prompts, rounds, pass_bytes(arm.target, 1, context), cycle)
