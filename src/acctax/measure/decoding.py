"""Acceptance is counted: every prompt is decoded freely by both arms, in turn."""

from collections.abc import Sequence

from acctax.decode.cycle import Generation
from acctax.decode.rules import Forced
from acctax.measure import lossless
from acctax.measure.behaviour import looped
from acctax.measure.gauges import joules
from acctax.measure.workload import Prompt
from acctax.progress import Progress
from acctax.record import Lossless, PromptRecord

ARMS = ("reference", "candidate")
SEED_STRIDE = 1_000_003  # between the seeds of two prompts, whatever the sweep's seed


def decode_all(
    generations: Sequence[Generation],
    prompts: Sequence[tuple[Prompt, list[int]]],
    K: int,
    max_new_tokens: int,
    seed: int,
    progress: Progress,
    first: int = 0,
) -> tuple[list[list[PromptRecord]], list[Lossless]]:
    """A list of records per generation (arm), and what was verified of greedy text; prompts from the `first` on.

    The arms take turns, A B B A, so that drift meets both alike.
    """
    records: list[list[PromptRecord]] = [[] for _ in generations]
    verified = []
    with progress.phase("decode", total=(len(prompts) - first) * len(generations)) as phase:
        for i, (prompt, tokens) in enumerate(prompts[first:], first):
            arms = list(zip(ARMS, generations, records))
            for arm, generation, its_records in arms if i % 2 == 0 else reversed(arms):
                generation.begin(tokens, seed + SEED_STRIDE * i, max_new_tokens)
                its_records.append(_decode(generation, prompt, len(tokens), K))
                if lossless.sampled(generation, K, i):
                    verified.append(lossless.verify(generation, len(tokens), i, arm, prompt.id))
                phase.advance()
    return records, verified


def _decode(generation: Generation, prompt: Prompt, prompt_tokens: int, K: int) -> PromptRecord:
    cycles, drawn = [], joules(generation.target.device)
    while not generation.finished:
        cycles.append(generation.cycle(K))
    if drawn is not None:
        drawn = joules(generation.target.device) - drawn
    tokens = generation.text[prompt_tokens:]
    return PromptRecord(
        prompt_id=prompt.id,
        category=prompt.category,
        prompt_tokens=prompt_tokens,
        tokens=tokens,
        drafted=[cycle.drafted for cycle in cycles],
        accepted=[cycle.accepted for cycle in cycles],
        committed=[cycle.committed for cycle in cycles],
        capped=generation.capped,
        looped=looped(tokens) and not isinstance(generation.rule, Forced),  # forced text is nobody's fault
        seconds=sum(cycle.seconds for cycle in cycles),
        joules=drawn,
    )
