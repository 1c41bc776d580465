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
    clocks = [_ArmClock(arm, K) for arm in arms]
    bandwidth: list[float] = []
    with progress.phase("clock", total=len(rounds)) as phase:
        for r in rounds:
            for arm_clock in clocks:
                arm_clock.begin(prompts[r % len(prompts)], seed + r, cycles)
            with _undisturbed():
                bandwidth.append(read_bandwidth(arms[0].target.device))
                for arm_clock in clocks:
                    arm_clock.warm_up()
                _interleave([step for arm_clock in clocks for step in arm_clock.steps()], cycles)
            for arm_clock in clocks:
                arm_clock.finish()
            phase.advance()
    return [arm_clock.rounds for arm_clock in clocks], bandwidth


def _interleave(steps: list[Callable[[], None]], cycles: int) -> None:
    """Every step `cycles` times: forwards, backwards, forwards, … (A B B A)."""
    for c in range(cycles):
        for step in steps if c % 2 == 0 else reversed(steps):
            step()


@contextmanager
def _undisturbed() -> Iterator[None]:
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


class _ArmClock:
    """One arm's stop-watches: passes over M rows, plain steps, whole cycles."""

    def __init__(self, arm: Arm, K: int):
        self.arm, self.K = arm, K
        self.plain, self.speculative = arm.plain(), arm.speculative()
        self.rounds: list[Round] = []

    def begin(self, prompt: list[int], seed: int, cycles: int) -> None:
        room = self.arm.target.capacity - len(prompt)
        self.plain.begin(prompt, seed, room)
        self.speculative.begin(prompt, seed, room)
        self.passes: dict[int, list[float]] = defaultdict(list)
        self.ar_steps: list[float] = []
        self.cycles: list[Cycle] = []

    def warm_up(self) -> None:
        """One pass that does not count: the first after something else is slower, whichever arm's it is."""
        self._pass(1)
        self.passes.clear()

    def steps(self) -> list[Callable[[], None]]:
        passes = [lambda rows=rows: self._pass(rows) for rows in range(1, self.K + 2)]
        return [*passes, self._ar_step, self._cycle]

    def finish(self) -> None:
        T = {rows: median(seconds) for rows, seconds in self.passes.items()}
        D = _typical(self.cycles, lambda cycle: cycle.draft_seconds)
        C = _typical(self.cycles, lambda cycle: cycle.seconds)
        self.rounds.append(Round(T, D if self.K else 0.0, C, median(self.ar_steps)))

    def _pass(self, rows: int) -> None:
        self.passes[rows].append(self.plain.pass_seconds(rows))

    def _ar_step(self) -> None:
        self.ar_steps.append(self.plain.cycle(0).seconds)

    def _cycle(self) -> None:
        self.cycles.append(self.speculative.cycle(self.K))


def _typical(cycles: list[Cycle], seconds: Callable[[Cycle], float]) -> float:
    """The mean over cycles, robust: each number of drafts (n-grams vary) enters with the median of its cycles."""
    by_width: dict[int, list[float]] = defaultdict(list)
    for cycle in cycles:
        by_width[cycle.drafted].append(seconds(cycle))
    return sum(len(group) * median(group) for group in by_width.values()) / len(cycles)
