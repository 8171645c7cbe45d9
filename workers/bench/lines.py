"""Lines out of a stream of bytes, whatever its pieces; lines that never end are dropped."""

from collections.abc import Iterator


class Lines:
    """Cuts a stream at newlines and drops lines longer than `most` bytes."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._rest = bytearray()
        self._skipping = False

    def feed(self, data: bytes) -> Iterator[bytes]:
        """Take a piece of the stream; the lines it completes, without their newlines."""
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
