"""A time limit for a whole HTTP request: httpx limits each read, which a slow drip never exceeds.

When the time is over the socket is shut down, during a handshake, headers or a body.
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Mapping
from contextlib import suppress
from typing import Any


class Deadline:
    """`with Deadline(60) as deadline:` and `extensions={"trace": deadline.watch}` on the request.

    `passed` says afterwards whether the request was cut off.
    """

    def __init__(self, seconds: float) -> None:
        self.passed = False
        self._timer = threading.Timer(seconds, self._cut)
        self._timer.daemon = True
        self._socket: socket.socket | None = None

    def watch(self, event: str, info: Mapping[str, Any]) -> None:
        """Get the connection's socket (httpcore's trace extension)."""
        if event != "connection.connect_tcp.complete":
            return
        self._close()
        # A duplicate: TLS detaches the descriptor of this socket.
        self._socket = info["return_value"].get_extra_info("socket").dup()
        if self.passed:
            self._cut()

    def _cut(self) -> None:
        self.passed = True
        if self._socket is not None:
            with suppress(OSError):
                self._socket.shutdown(socket.SHUT_RDWR)

    def __enter__(self) -> Deadline:
        self._timer.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._timer.cancel()
        self._close()

    def _close(self) -> None:
        if self._socket is not None:
            self._socket.close()
