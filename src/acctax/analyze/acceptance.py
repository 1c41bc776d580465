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
    """The cycles of P prompts of one arm.

    counts[p, d, a]: cycles of prompt p that offered d drafts and accepted a of them, before any cut [P, K+1, K+1].
    committed [P]: tokens kept: nothing behind a stop token counts. A last cycle that the token limit cuts counts
    whole, with the tokens that the limit took. The longer a cycle, the likelier it meets the limit: to leave it out
    would leave out long ones, and τ fall short by var/τ over the cycles of a prompt, 1 to 4 % of 48 tokens. The limit
    is a stopping time, so that whole cycles up to it have the true mean (Wald's identity).
    """

    counts: NDArray[np.int64]
    committed: NDArray[np.int64]

    @classmethod
    def of(cls, prompts: Sequence[PromptRecord], K: int) -> "Acceptance":
        counts = np.zeros((len(prompts), K + 1, K + 1), np.int64)
        committed = np.zeros(len(prompts), np.int64)
        for p, prompt in enumerate(prompts):
            np.add.at(counts[p], (prompt.drafted, prompt.accepted), 1)
            cut = prompt.accepted[-1] + 1 - prompt.committed[-1] if prompt.capped else 0
            committed[p] = sum(prompt.committed) + cut
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

    def unconditional(self, weights: NDArray[np.float64], looks: int = 1) -> list[Draws]:
        """For i = 1..K: of the cycles that offered an i-th draft, the share that accepted it."""
        return [self._share(i, 0, weights, looks) for i in range(1, self.K + 1)]

    def conditional(self, weights: NDArray[np.float64], looks: int = 1) -> list[Draws]:
        """For i = 1..K: the same, of those cycles that had accepted all drafts before the i-th."""
        return [self._share(i, i - 1, weights, looks) for i in range(1, self.K + 1)]

    def _share(self, i: int, least: int, weights: NDArray[np.float64], looks: int) -> Draws:
        """Of the cycles that offered an i-th draft and accepted `least` or more, those that accepted it [R+1]."""
        by_length = self.counts[:, i:].sum(1)  # [P, K+1]
        with np.errstate(invalid="ignore", divide="ignore"):
            share = weights @ by_length[:, i:].sum(1) / (weights @ by_length[:, least:].sum(1))
        return np.clip(widen(share, len(by_length), looks), 0, 1)


def _ratio(part: int, whole: int) -> float:
    return float(part / whole) if whole else float("nan")
