"""Splits a stream of bytes into lines, and drops lines that are too long."""

from collections.abc import Iterator


class Lines:
    """Splits a stream at newlines; lines longer than `most` bytes are dropped."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._rest = bytearray()  # the last line, at most one byte more than it may have

    def feed(self, data: bytes) -> Iterator[bytes]:
        """The lines that a piece of the stream completes, without their newlines."""
        *ends, rest = data.split(b"\n")
        for end in ends:
            self._rest += end
            if len(self._rest) <= self._most:
                yield bytes(self._rest)
            self._rest.clear()
        self._rest += rest[: self._most + 1 - len(self._rest)]
