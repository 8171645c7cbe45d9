"""A time limit for a whole HTTP request: httpx2 limits each read, which a slow drip never exceeds.

When the time is over the socket is shut down, during a handshake, headers or a body.
"""

import socket
import threading
from collections.abc import Mapping
from contextlib import ExitStack, suppress
from typing import Any, Self


class Deadline(ExitStack):
    """`with Deadline(60) as deadline:` and `extensions={"trace": deadline.watch}` on the request.

    `passed` says afterwards whether the request was cut off.
    """

    def __init__(self, seconds: float) -> None:
        super().__init__()
        self.passed = False
        self._timer = threading.Timer(seconds, self._cut)
        self._timer.daemon = True
        self._socket: socket.socket | None = None

    def watch(self, event: str, info: Mapping[str, Any]) -> None:
        """Get the connection's socket (httpcore's trace extension)."""
        if event != "connection.connect_tcp.complete":
            return
        # A duplicate: TLS detaches the descriptor of this socket.
        self._socket = self.enter_context(info["return_value"].get_extra_info("socket").dup())
        if self.passed:
            self._cut()

    def _cut(self) -> None:
        self.passed = True
        self.cut()

    def cut(self) -> None:
        """Shut the connection down now."""
        if self._socket is not None:
            with suppress(OSError):
                self._socket.shutdown(socket.SHUT_RDWR)

    def __enter__(self) -> Self:
        self._timer.start()
        self.callback(self._timer.cancel)
        return self
