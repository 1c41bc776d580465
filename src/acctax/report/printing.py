"""Text on standard output, whatever that is: it never raises."""

import os
import sys
from contextlib import suppress

# For terminals without Unicode: of the same width, so that columns stay where they are.
ARROW = " →", "->"
PLAIN = {
    "−": "-", "—": "-", "–": "-", "→": ">", "×": "x", "·": ".", "≤": "<", "≥": ">", "∞": "~", "…": ".", "│": "|",
    "█": "#", "─": "-", "τ": "t", "α": "a", "Σ": "S",
}  # fmt: skip


def put(text: str) -> None:
    """Print it. A letter that the terminal does not know is replaced; a pipe that is closed ends printing for good."""
    if sys.stdout is None:  # closed before we began
        return
    try:
        sys.stdout.write(spell(text, sys.stdout.encoding or "ascii") + "\n")
        sys.stdout.flush()
    except (OSError, ValueError):
        _hush()


def spell(text: str, encoding: str) -> str:
    """With letters of that encoding alone."""
    try:
        text.encode(encoding)
    except UnicodeEncodeError:
        return "".join(_spell(letter, encoding) for letter in text.replace(*ARROW))
    return text


def _spell(letter: str, encoding: str) -> str:
    known = letter.encode(encoding, "ignore")
    return letter if known else PLAIN.get(letter, "?")


def _hush() -> None:
    """Nobody reads any more: what is left in buffers, and what is printed later, goes nowhere."""
    with suppress(OSError, ValueError), open(os.devnull, "w") as nowhere:
        os.dup2(nowhere.fileno(), sys.stdout.fileno())
