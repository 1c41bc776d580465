"""Levers: what each component that is still as loaded would weigh in NVFP4, and what that would do to acceptance.

Bytes are counted from a target that is really packed so, acceptance is scored on the reference's text. Nothing is
decoded and nothing clocked: a forecast for the ranking of what to do next.
"""

from collections.abc import Iterator
from dataclasses import replace
from fnmatch import fnmatchcase

from acctax.config import Cell, Recipe, Rule
from acctax.errors import ConfigError
from acctax.measure.arms import build_arm
from acctax.measure.job import capacity_of, mean_context, prompts_of, set_up
from acctax.measure.same_context import score
from acctax.models.checkpoint import Checkpoint, open_checkpoint
from acctax.progress import Progress
from acctax.quant import recipes
from acctax.record import Lever, Record

FORMAT = "nvfp4"
CACHE_SHARE = 4.5 / 16  # of a cache's bytes in bf16: four bits and a scale of eight for 16 values
PROMPTS = 8  # that are scored
COMPONENTS = {
    "lm_head": ["lm_head"],
    "q,k,v": ["*.q_proj", "*.k_proj", "*.v_proj"],
    "o": ["*.o_proj"],
    "mlp": ["*.mlp.*"],
}


def measure_levers(cell: Cell, record: Record, progress: Progress) -> list[Lever]:
    """record: the cell's own; what its reference wrote is what is scored."""
    set_up(cell)
    checkpoint = open_checkpoint(cell.target)
    prompts = prompts_of(cell, checkpoint)
    capacity, context = capacity_of(cell, checkpoint, prompts), mean_context(record.reference.prompts)
    written = [prompt for prompt in record.reference.prompts if not prompt.looped][:PROMPTS]
    by_id = {prompt.id: tokens for prompt, tokens in prompts}
    texts = [by_id[prompt.prompt_id] for prompt in written]
    reference = build_arm(cell.reference(), capacity)
    levers = [_cache(record)]
    for component, patterns, its_cell in _further(cell, checkpoint):
        arm = build_arm(its_cell, capacity)
        scored = score((reference, arm), texts, written, cell.K, cell.decoding, progress)
        levers.append(Lever(component, patterns, arm.bytes_ar(context), arm.bytes_cycle(cell.K, context), scored))
    return levers


def _further(cell: Cell, checkpoint: Checkpoint) -> Iterator[tuple[str, list[str], Cell]]:
    """Component, patterns, and the cell with them in NVFP4, for every component of which something is as loaded."""
    linears, own = checkpoint.config.linears(), cell.target_quant
    left = [module for module, rule in recipes.assign(own, linears).items() if rule is None]
    for component, patterns in COMPONENTS.items():
        patterns = [pattern for pattern in patterns if any(fnmatchcase(module, pattern) for module in left)]
        further = Recipe(f"{own.name}+{component}", own.rules + tuple(Rule(p, FORMAT) for p in patterns))
        if patterns and _fits(further, linears):
            yield component, patterns, replace(cell, target_quant=further)
    if cell.K and cell.draft_source.takes_recipe and cell.drafter_quant is None:
        everything = recipes.load("nvfp4_all")
        yield "drafter", [rule.pattern for rule in everything.rules], replace(cell, drafter_quant=everything)


def _fits(recipe: Recipe, linears: dict[str, tuple[int, int]]) -> bool:
    try:
        recipes.assign(recipe, linears)
    except ConfigError:  # a width that is no multiple of the format's blocks
        return False
    return True


def _cache(record: Record) -> Lever:
    """The target's KV cache: no op of ours computes in such a one, so its acceptance is unknown."""
    ledgers = (record.candidate.bytes_ar, record.candidate.bytes_cycle)
    return Lever("kv cache", [], *(ledger | {"kv": CACHE_SHARE * ledger["kv"]} for ledger in ledgers), [])
