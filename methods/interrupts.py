"""One interrupt ends a run without splitting an event; later ones do not cut off its end."""

import contextlib
import signal
from collections.abc import Iterator
from types import FrameType
from typing import Any, Self

SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Interruptible:
    """While entered, the first Ctrl-C or TERM raises KeyboardInterrupt; later ones do nothing."""

    def __init__(self) -> None:
        self._before: dict[int, Any] = {}
        self._held = self._waiting = False

    def __enter__(self) -> Self:
        self._before = {number: signal.signal(number, self._interrupt) for number in SIGNALS}
        return self

    def __exit__(self, *error: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def ignore(self) -> None:
        """Ignore interrupts from here on: results are being written."""
        for number in SIGNALS:
            signal.signal(number, signal.SIG_IGN)
        self._waiting = False

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """Let an interrupt wait until the block is done."""
        self._held = True
        try:
            yield
        finally:
            self._held = False
        if self._waiting:
            self.ignore()
            raise KeyboardInterrupt

    def _interrupt(self, number: int, frame: FrameType | None) -> None:
        self.ignore()
        self._waiting = True  # until it is handled: a callback may have swallowed what is raised
        if not self._held:
            raise KeyboardInterrupt
