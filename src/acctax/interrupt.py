"""An interrupt that is not lost: Python drops the KeyboardInterrupt that it raises amid a garbage collection."""

import signal

_came = False


def catch() -> None:
    """From now on Ctrl-C and a polite kill raise KeyboardInterrupt, and `check` does if that went nowhere."""
    global _came
    _came = False
    signal.signal(signal.SIGINT, _interrupt)
    signal.signal(signal.SIGTERM, _interrupt)


def _interrupt(*_: object) -> None:
    global _came
    _came = True
    raise KeyboardInterrupt


def check() -> None:
    """Raises KeyboardInterrupt, once, if one came since `catch`."""
    global _came
    if _came:
        _came = False
        raise KeyboardInterrupt
