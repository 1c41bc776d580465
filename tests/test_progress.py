import io

import pytest
from rich.console import Console

from acctax import progress
from acctax.progress import Progress


@pytest.fixture
def clock(monkeypatch):
    class Clock:
        now = 0.0

    monkeypatch.setattr(progress.time, "monotonic", lambda: Clock.now)
    return Clock


def test_plain_lines_are_few_and_tell_the_time_left(clock):
    text = io.StringIO()
    with Progress(2, Console(file=text)) as bars:
        with bars.cell("K=1"), bars.phase("decode", total=100) as phase:
            for _ in range(100):
                clock.now += 1
                phase.advance()
        with bars.cell("K=2"), bars.phase("decode", total=100) as phase:
            clock.now += 25
            phase.advance(25)
    lines = text.getvalue().splitlines()
    assert lines[0] == "[1/2] K=1" and lines[1] == "      decode 15 %, 1:25 left"
    assert len(lines) == 2 + 6 + 1  # a line a cell, and one every 15 s
    assert lines[-1] == "      decode 25 %, 1:15 left, sweep: 1:15 left"


def test_bars_on_a_terminal_and_silence(clock):
    text = io.StringIO()
    with Progress(1, Console(file=text, force_terminal=True, width=100)) as bars, bars.cell("K=1"):
        with bars.phase("decode", total=4) as phase:
            clock.now += 1
            phase.advance(2)
        bars.note("a line that stays")
    assert "cell 1/1 K=1" in text.getvalue() and "decode" in text.getvalue() and "50 %" in text.getvalue()
    assert "a line that stays" in text.getvalue()
    silent = Progress.silent()
    with silent.phase("decode", total=1) as phase:
        phase.advance()
