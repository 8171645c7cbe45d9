"""Splits a stream of bytes into lines, and drops lines that are too long."""

from collections.abc import Iterator


class Lines:
    """Splits a stream at newlines; lines longer than `most` bytes are dropped."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._rest = bytearray()
        self._skipping = False

    def feed(self, data: bytes) -> Iterator[bytes]:
        """The lines that a piece of the stream completes, without their newlines."""
        *ends, rest = data.split(b"\n")
        for end in ends:
            self._rest += end
            if not self._skipping and len(self._rest) <= self._most:
                yield bytes(self._rest)
            self._rest.clear()
            self._skipping = False
        self._rest += rest
        if len(self._rest) > self._most:
            self._rest.clear()
            self._skipping = True
