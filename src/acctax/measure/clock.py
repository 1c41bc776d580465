"""Time is clocked on few cycles, interleaved: every figure of a round stands within a second of its counterparts."""

import gc
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from statistics import median

from acctax.decode.cycle import Cycle
from acctax.measure.arms import Arm
from acctax.measure.bandwidth import read_bandwidth
from acctax.progress import Progress
from acctax.record import Round


def clock(
    arms: Sequence[Arm],
    prompts: Sequence[list[int]],
    K: int,
    rounds: Sequence[int],
    cycles: int,
    seed: int,
    progress: Progress,
) -> tuple[list[list[Round]], list[float]]:
    """Rounds of each arm, and the read bandwidth in bytes/s of each round. rounds: their numbers, from 0."""
    clocks = [ArmClock(arm, K) for arm in arms]
    bandwidth: list[float] = []
    with progress.phase("clock", total=len(rounds)) as phase:
        for r in rounds:
            for arm_clock in clocks:
                arm_clock.begin(prompts[r % len(prompts)], seed + r)
            with _undisturbed():
                bandwidth.append(read_bandwidth(arms[0].target.device))
                take_turns(clocks if r % 2 == 0 else clocks[::-1], cycles)
            for arm_clock in clocks:
                arm_clock.finish()
            phase.advance()
    return [arm_clock.rounds for arm_clock in clocks], bandwidth


def take_turns(clocks: Sequence["ArmClock"], cycles: int) -> None:
    """`cycles` turns of each arm, A B A B: each turn follows the other arm's, and finds in the caches what that left.

    Were it A B B A, one arm's drafter would be found there more often than the other's, and be faster by that alone.
    """
    for _ in range(cycles):
        for arm_clock in clocks:
            arm_clock.turn()


@contextmanager
def _undisturbed() -> Iterator[None]:
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


class ArmClock:
    """One arm's stop-watches: passes over M rows, plain steps, whole cycles."""

    def __init__(self, arm: Arm, K: int):
        self.arm, self.K = arm, K
        self.plain, self.speculative = arm.plain(), arm.speculative()
        self.rounds: list[Round] = []

    def begin(self, prompt: list[int], seed: int) -> None:
        room = self.arm.target.capacity - len(prompt)
        self.plain.begin(prompt, seed, room)
        self.speculative.begin(prompt, seed, room)
        self.passes: dict[int, list[float]] = defaultdict(list)
        self.ar_steps: list[float] = []
        self.cycles: list[Cycle] = []

    def turn(self) -> None:
        """Each step once, after a pass that does not count: the first after something else is slower."""
        self.plain.pass_seconds(1)
        for rows in range(1, self.K + 2):
            self.passes[rows].append(self.plain.pass_seconds(rows))
        self.ar_steps.append(self.plain.cycle(0).seconds)
        self.cycles.append(self.speculative.cycle(self.K))

    def finish(self) -> None:
        T = {rows: median(seconds) for rows, seconds in self.passes.items()}
        D = _typical(self.cycles, lambda cycle: cycle.draft_seconds)
        C = _typical(self.cycles, lambda cycle: cycle.seconds)
        self.rounds.append(Round(T, D if self.K else 0.0, C, median(self.ar_steps)))


def _typical(cycles: list[Cycle], seconds: Callable[[Cycle], float]) -> float:
    """The mean over cycles, robust: each number of drafts (n-grams vary) enters with the median of its cycles."""
    by_width: dict[int, list[float]] = defaultdict(list)
    for cycle in cycles:
        by_width[cycle.drafted].append(seconds(cycle))
    return sum(len(group) * median(group) for group in by_width.values()) / len(cycles)
