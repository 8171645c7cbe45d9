"""A gunicorn worker that receives whole requests before a thread answers them.

gunicorn's threads read requests themselves, so a few dozen senders that never finish stop a site.
Here the worker's single loop receives head and body, within limits, and hands a complete request to
a thread. A sender that is slow, endless or silent costs a socket and no thread. Where all sockets
are taken, the connection that has waited longest without a complete request gives way.
"""

import re
import resource
import socket
import struct
import time
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from http import HTTPStatus
from selectors import EVENT_READ
from typing import Any

from gunicorn.workers.gthread import TConn, ThreadWorker  # type: ignore[import-untyped]

MAX_HEAD = 16 << 10  # bytes of request line and headers
MAX_BODY = 10 << 20  # bytes; the largest import is smaller
MAX_BODIES = 64 << 20  # bytes of all unfinished bodies of a process
HEAD_SECONDS = 10.0  # from connecting to the end of the head
BODY_SECONDS = 20.0  # for a body, besides its length by SLOWEST
SLOWEST = 32 << 10  # bytes a second
IDLE_SECONDS = 5.0  # without a byte, after a response
LINGER_SECONDS = 2.0  # for the sender to read a last response (RFC 9112, section 9.6)
MAX_LINGER = 1 << 20  # bytes thrown away meanwhile
BLOCKED_SECONDS = 10  # for which a response waits for a receiver that reads nothing
_LENGTH = re.compile(rb"^content-length:[ \t]*(.*?)[ \t]*\r?$", re.IGNORECASE | re.MULTILINE)
_CODING = re.compile(rb"^transfer-encoding:", re.IGNORECASE | re.MULTILINE)
_EXPECTS = re.compile(rb"^expect:[ \t]*100-continue", re.IGNORECASE | re.MULTILINE)


class RequestRefusedError(Exception):
    """A request is not received; the message tells its sender why."""

    def __init__(self, status: HTTPStatus, why: str) -> None:
        super().__init__(why)
        self.status = status


def body_length(head: bytes) -> int:
    """The bytes of the body that a head announces. Raises RequestRefusedError."""
    if _CODING.search(head):
        raise RequestRefusedError(
            HTTPStatus.LENGTH_REQUIRED, "Send the body with a Content-Length."
        )
    lengths = set(_LENGTH.findall(head))
    if not lengths:
        return 0
    if len(lengths) > 1 or not re.fullmatch(rb"[0-9]{1,18}", next(iter(lengths))):
        raise RequestRefusedError(HTTPStatus.BAD_REQUEST, "The Content-Length is no number.")
    if (length := int(lengths.pop())) > MAX_BODY:
        most = f"A request may have {MAX_BODY >> 20} MiB."
        raise RequestRefusedError(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, most)
    return length


@dataclass
class Incoming:
    """The state of a request that is being received, with its deadline."""

    deadline: float  # time.monotonic()
    received: bytearray = field(default_factory=bytearray)
    length: int | None = None  # of head and body, once the head is complete
    closing: bool = False  # it has its last response: what comes is thrown away
    thrown_away: int = 0  # bytes


class ReceivingWorker(ThreadWorker):  # type: ignore[misc]  # gunicorn has no types
    """gunicorn's threads, fed with complete requests."""

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self.incoming: dict[TConn, Incoming] = {}  # the longest waiting first
        self.rest: dict[TConn, bytes] = {}  # what came after a request that is being answered

    def init_process(self) -> None:
        """Allow as many open sockets as the system does, then serve."""
        _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
        with suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
        super().init_process()

    def accept(self, listener: socket.socket) -> None:
        """Accept a connection; if there is no room, close the one that has waited longest."""
        if self.nr_conns + 1 >= self.worker_connections and self.incoming:
            self._drop(next(iter(self.incoming)))
        try:
            sock, address = listener.accept()
        except OSError:  # taken by another process, gone again, or no descriptor is left
            return
        # The kernel holds a whole page, so that a receiver which reads nothing blocks no thread.
        with suppress(OSError):
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 20)
        for option in (socket.SO_SNDTIMEO, socket.SO_RCVTIMEO):
            sock.setsockopt(socket.SOL_SOCKET, option, struct.pack("ll", BLOCKED_SECONDS, 0))
        self.nr_conns += 1
        self._await(TConn(self.cfg, sock, address, listener.getsockname()), HEAD_SECONDS)

    def finish_request(self, conn: TConn, done: "Future[object]") -> None:
        """After a response: await the next request, or let the connection end."""
        rest = self.rest.pop(conn, b"")
        if done.cancelled() or done.exception() or done.result() is not True or not self.alive:
            self._close_slowly(conn)
            return
        self._await(conn, IDLE_SECONDS)
        if rest:
            self._add(conn, rest)

    def murder_pending(self) -> None:
        """End requests that take too long; gunicorn's loop calls this after each turn."""
        now = time.monotonic()
        for conn, request in list(self.incoming.items()):
            if request.deadline > now:
                continue
            if request.closing or not request.received:
                self._drop(conn)
            else:
                slow = "The request did not arrive in time."
                self._refuse(conn, RequestRefusedError(HTTPStatus.REQUEST_TIMEOUT, slow))

    def wait_for_and_dispatch_events(self, timeout: float) -> None:
        """Wait for an event; with no connection there is nothing else to look after."""
        super().wait_for_and_dispatch_events(timeout if self.nr_conns else IDLE_SECONDS)

    def _await(self, conn: TConn, seconds: float) -> None:
        conn.sock.setblocking(False)
        self.incoming[conn] = Incoming(time.monotonic() + seconds)
        self.poller.register(conn.sock, EVENT_READ, partial(self._receive, conn))

    def _receive(self, conn: TConn, sock: socket.socket) -> None:
        try:
            data = sock.recv(64 << 10)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        request = self.incoming[conn]
        request.thrown_away += len(data) if request.closing else 0
        if not data or request.thrown_away > MAX_LINGER:
            self._drop(conn)
        elif not request.closing:
            self._add(conn, data)

    def _add(self, conn: TConn, data: bytes) -> None:
        """Add received bytes; a complete request goes to a thread."""
        request = self.incoming[conn]
        if not request.received:  # an idle connection has begun a request
            request.deadline = time.monotonic() + HEAD_SECONDS
        request.received += data
        try:
            if request.length is None:
                self._read_head(conn, request)
        except RequestRefusedError as error:
            self._refuse(conn, error)
            return
        if request.length is None or len(request.received) < request.length:
            return
        self._forget(conn)
        conn.init()
        conn.data_ready = True
        conn.parser.unreader.unread(bytes(request.received[: request.length]))
        self.rest[conn] = bytes(request.received[request.length :])
        self.enqueue_req(conn)

    def _read_head(self, conn: TConn, request: Incoming) -> None:
        """Learn the request's length, once its head is there. Raises RequestRefusedError."""
        end = request.received.find(b"\r\n\r\n", 0, MAX_HEAD)
        if end < 0:
            if len(request.received) >= MAX_HEAD:
                most = f"Request line and headers may have {MAX_HEAD >> 10} KiB."
                raise RequestRefusedError(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, most)
            return
        head = bytes(request.received[:end])
        body = body_length(head)
        expected = sum(other.length or 0 for other in self.incoming.values()) + body
        if body > SLOWEST and expected > MAX_BODIES:
            busy = "Too many large requests are under way. Try again in a minute."
            raise RequestRefusedError(HTTPStatus.SERVICE_UNAVAILABLE, busy)
        request.length = end + 4 + body
        request.deadline = time.monotonic() + BODY_SECONDS + body / SLOWEST
        if _EXPECTS.search(head) and len(request.received) < request.length:
            self._send(conn, b"HTTP/1.1 100 Continue\r\n\r\n")

    def _refuse(self, conn: TConn, error: RequestRefusedError) -> None:
        """Answer a request that is not read to its end, and end the connection."""
        self._forget(conn)
        body = f"{error}\n".encode()
        head = (
            f"HTTP/1.1 {error.status.value} {error.status.phrase}\r\n"
            f"Content-Type: text/plain; charset=utf-8\r\nContent-Length: {len(body)}\r\n"
            "Connection: close\r\n\r\n"
        )
        self._send(conn, head.encode() + body)
        self._close_slowly(conn)

    def _send(self, conn: TConn, data: bytes) -> None:
        with suppress(OSError):  # a few bytes always fit, unless the sender has gone
            conn.sock.send(data)

    def _close_slowly(self, conn: TConn) -> None:
        """End a connection once its sender has read the response, without keeping the loop."""
        try:
            conn.sock.shutdown(socket.SHUT_WR)
        except OSError:
            self.nr_conns -= 1
            conn.close()
            return
        self._await(conn, LINGER_SECONDS)
        self.incoming[conn].closing = True

    def _forget(self, conn: TConn) -> None:
        self.incoming.pop(conn, None)
        with suppress(OSError, KeyError, ValueError):
            self.poller.unregister(conn.sock)

    def _drop(self, conn: TConn) -> None:
        self._forget(conn)
        self.nr_conns -= 1
        conn.close()
