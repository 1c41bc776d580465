"""Acceptance, counted: τ from what was committed, the rest from what was offered and accepted."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from acctax.analyze.intervals import Draws, widen
from acctax.record import PromptRecord, Record

Pairs = list[tuple[PromptRecord, PromptRecord]]


def pair(record: Record) -> Pairs:
    """(reference, candidate) of each prompt, but those in which the reference's text loops.

    A looping text is easy to draft and nobody ships one: such a prompt says nothing in either arm.
    """
    pairs = zip(record.reference.prompts, record.candidate.prompts, strict=True)
    return [(reference, candidate) for reference, candidate in pairs if not reference.looped]


@dataclass(frozen=True)
class Acceptance:
    """The cycles of P prompts of one arm, a last cycle cut by the token limit left out.

    counts[p, d, a]: cycles of prompt p that offered d drafts and accepted a of them, before any cut at a stop
    token [P, K+1, K+1]. committed [P]: tokens kept, after that cut: nothing behind a stop token counts.
    """

    counts: NDArray[np.int64]
    committed: NDArray[np.int64]

    @classmethod
    def of(cls, prompts: Sequence[PromptRecord], K: int) -> "Acceptance":
        counts = np.zeros((len(prompts), K + 1, K + 1), np.int64)
        committed = np.zeros(len(prompts), np.int64)
        for p, prompt in enumerate(prompts):
            whole = len(prompt.committed) - prompt.capped
            np.add.at(counts[p], (prompt.drafted[:whole], prompt.accepted[:whole]), 1)
            committed[p] = sum(prompt.committed[:whole])
        return cls(counts, committed)

    @property
    def K(self) -> int:
        return self.counts.shape[1] - 1

    @property
    def cycles(self) -> NDArray[np.int64]:
        """[P]"""
        return self.counts.sum((1, 2))

    @property
    def histogram(self) -> NDArray[np.int64]:
        """Cycles by accepted length 0..K, over all prompts [K+1]."""
        return self.counts.sum((0, 1))

    def tau(self, weights: NDArray[np.float64], looks: int = 1) -> Draws:
        """Σ committed / Σ cycles, the micro average, for each row of prompt weights [R+1, P]."""
        with np.errstate(invalid="ignore", divide="ignore"):
            log = np.log(weights @ self.committed / (weights @ self.cycles))
        return np.exp(widen(log, len(self.committed), looks))

    def draft_rate(self) -> float:
        """Accepted drafts over offered drafts. NaN where none was offered."""
        lengths = np.arange(self.K + 1)
        cycles = self.counts.sum(0)
        return _ratio(cycles.sum(0) @ lengths, cycles.sum(1) @ lengths)

    def unconditional(self) -> list[float]:
        """For i = 1..K: of the cycles that offered an i-th draft, the share that accepted it [K]."""
        cycles = self.counts.sum(0)
        return [_ratio(cycles[i:, i:].sum(), cycles[i:].sum()) for i in range(1, self.K + 1)]

    def conditional(self) -> list[float]:
        """For i = 1..K: the same, of those cycles that had accepted all drafts before the i-th [K]."""
        cycles = self.counts.sum(0)
        return [_ratio(cycles[i:, i:].sum(), cycles[i:, i - 1 :].sum()) for i in range(1, self.K + 1)]


def _ratio(part: int, whole: int) -> float:
    return float(part / whole) if whole else float("nan")
