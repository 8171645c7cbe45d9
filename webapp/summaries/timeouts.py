"""Timeouts of an answer: as a whole, for its first word, and in each silence after it.

A model on a processor reads for minutes before it writes, and then writes a word or two a second:
neither is a silence. Any byte counts, also a comment that only keeps the connection open.
"""

import math
import threading
import time
from collections.abc import Iterator
from typing import Any, Self

from httpx2 import SyncByteStream

from webapp.papers.deadline import Deadline

READS = 50.0  # characters a second that a slow server reads of a prompt before it answers


class AnswerTimeouts(Deadline):
    """A deadline that also ends a silence; `was_silent` says afterwards whether it did."""

    def __init__(self, seconds: float, silence: float, characters: int) -> None:
        super().__init__(seconds)
        self.seconds = seconds
        self.silence = min(silence + characters / READS, seconds)  # before the first word
        self.was_silent = False
        self._between = silence
        self._until = math.inf
        self._ended = threading.Event()

    def restart(self) -> None:
        """Something came: the next silence begins."""
        self.silence = self._between
        self._until = time.monotonic() + self._between

    def _listen(self) -> None:
        while not self._ended.wait(min(1.0, self._between / 4)):
            if time.monotonic() >= self._until:
                self.was_silent = True
                self.cut()
                return

    def __enter__(self) -> Self:
        super().__enter__()
        if self.silence < self.seconds:  # else both would end at one moment, and chance would tell
            self._until = time.monotonic() + self.silence
        self.callback(self._ended.set)
        threading.Thread(target=self._listen, daemon=True).start()
        return self


def count_bytes(stream: Any, timeouts: AnswerTimeouts, most: int, error: Exception) -> Any:
    """Return a byte stream that restarts `timeouts` with each chunk; raise `error` over `most`."""

    class Counted(SyncByteStream):
        def __iter__(self) -> Iterator[bytes]:
            total = 0
            for chunk in stream:
                timeouts.restart()
                total += len(chunk)
                if total > most:
                    raise error
                yield chunk

        def close(self) -> None:
            stream.close()

    return Counted()
