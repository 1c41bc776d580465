"""Text that has gone wrong."""

from collections.abc import Sequence
from itertools import groupby

_REPETITIONS = 3
_LEAST = 16  # tokens: shorter repetitions occur in sound text ("no, no, no", a row of a table)


def looped(tokens: Sequence[int]) -> bool:
    """Whether the text is degenerate: it ends in a loop, or one token repeats 16 times or more anywhere in it.

    A loop is the same tokens back to back, at least three times and over 16 tokens. The repetition must be exact, so
    that numbered items and lists of alike lines do not count. A single last token may break it: the stop token of a
    text that left its loop.
    """
    return _ends_in_loop(tokens) or _ends_in_loop(tokens[:-1]) or _longest_run(tokens) >= _LEAST


def _longest_run(tokens: Sequence[int]) -> int:
    return max((len(list(run)) for _, run in groupby(tokens)), default=0)


def _ends_in_loop(tokens: Sequence[int]) -> bool:
    return any(
        _periodic_tail(tokens, period) >= max(_REPETITIONS * period, _LEAST)
        for period in range(1, len(tokens) // _REPETITIONS + 1)
    )


def _periodic_tail(tokens: Sequence[int], period: int) -> int:
    """How many tokens at the end repeat with `period`, the first instance included."""
    start = len(tokens) - period
    while start > 0 and tokens[start - 1] == tokens[start - 1 + period]:
        start -= 1
    return len(tokens) - start
