"""A real `manage.py up` withstands slow, large and endless requests."""

from __future__ import annotations

import http.client
import socket
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress

import pytest

from tests.processes import PATIENCE, House, idle_seconds_until, up
from workers.web.receiving import HEAD_SECONDS, MAX_BODY

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("receiving")]
QUICK = HEAD_SECONDS - 1  # seconds of waiting beside an attack, which itself ends after that


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    folder = tmp_path_factory.mktemp("receiving")
    (folder / "tmp").mkdir()
    with up(folder, TMPDIR=str(folder / "tmp")) as running:
        assert running.get("healthz")[0] == 200
        yield running


def connect(house: House) -> socket.socket:
    port = int(house.address.rstrip("/").rsplit(":", 1)[1])
    return socket.create_connection(("127.0.0.1", port), timeout=PATIENCE)


def answer(sock: socket.socket) -> http.client.HTTPResponse:
    response = http.client.HTTPResponse(sock)
    response.begin()
    return response


def head(*lines: str, verb: str = "POST", path: str = "/sign-in/") -> bytes:
    return "\r\n".join([f"{verb} {path} HTTP/1.1", "Host: localhost", *lines, "", ""]).encode()


def page_is_quick(house: House) -> None:
    """A page is answered, and the server hardly waits meanwhile: computing may take its time."""
    with ThreadPoolExecutor(1) as pool:
        asked = pool.submit(house.get, "")
        waited = idle_seconds_until(asked.done, "a page", lambda: house.children("assay-web"))
    assert asked.result()[0] == 200
    assert waited < QUICK


UNFINISHED = {
    "posts without their end": head("Content-Length: 500") + b"address=",
    "posts without any body": head("Content-Length: 500"),
    "half a head": b"GET / HTTP/1.1\r\nHost: loc",
    "one byte": b"G",
    "nothing": b"",
}


@pytest.mark.parametrize("sent", UNFINISHED.values(), ids=UNFINISHED.keys())
def test_unfinished_requests_keep_no_page_back(house: House, sent: bytes) -> None:
    with ExitStack() as stack:
        for _ in range(100):
            sock = stack.enter_context(connect(house))
            sock.sendall(sent)
        page_is_quick(house)
        page_is_quick(house)


def test_more_connections_than_there_is_room_for_keep_no_page_back(house: House) -> None:
    with ExitStack() as stack:
        for _ in range(700):
            stack.enter_context(connect(house)).sendall(b"GET / HT")
        page_is_quick(house)
        page_is_quick(house)


def test_a_byte_now_and_then_does_not_prolong_a_head(house: House) -> None:
    began = time.monotonic()
    with connect(house) as sock:
        with suppress(OSError):
            for byte in b"GET / HTTP/1.1\r\nX-Slow: " + b"a" * 1_000:
                sock.send(bytes([byte]))
                time.sleep(0.5)
            pytest.fail("it was read for ever")
        assert time.monotonic() - began > HEAD_SECONDS - 1


def test_a_slow_body_is_told_and_ended(house: House) -> None:
    with connect(house) as sock:
        sock.sendall(head("Content-Length: 500") + b"address=")
        assert answer(sock).status == 408


@pytest.mark.parametrize(
    ("lines", "status"),
    [
        (["Content-Length: 600000000", "Content-Type: multipart/form-data; boundary=x"], 413),
        ([f"Content-Length: {MAX_BODY + 1}"], 413),
        (["Content-Length: 9" * 1, "Content-Length: 8"], 400),
        (["Content-Length: -1"], 400),
        (["Content-Length: 0x10"], 400),
        (["Transfer-Encoding: chunked"], 411),
        (["X: " + "a" * 40_000], 431),
        ([f"X{n}: a" for n in range(5_000)], 431),
    ],
)
def test_what_is_too_large_is_refused_before_it_is_read(
    house: House, lines: list[str], status: int
) -> None:
    with connect(house) as sock:
        sock.sendall(head(*lines))
        response = answer(sock)
        assert response.status == status  # 408 if it waited for the rest
        assert response.read().endswith(b".\n")


def test_a_large_upload_is_written_nowhere(house: House) -> None:
    temporary = house.data / "tmp"
    with connect(house) as sock:
        sock.sendall(head("Content-Length: 600000000"))
        try:
            for _ in range(200):
                sock.sendall(b"x" * (1 << 20))
        except OSError:
            pass  # it hung up
        else:
            pytest.fail("200 MB were received")
    # Others of the house have small files there that come and go.
    assert sum(file.stat().st_size for file in temporary.rglob("*") if file.is_file()) < 1 << 20
    page_is_quick(house)


def test_requests_in_any_pieces_are_answered_in_order(house: House) -> None:
    request = head(verb="GET", path="/healthz")
    with connect(house) as sock:
        for size in (1, 7, len(request)):
            for at in range(0, len(request), size):
                sock.sendall(request[at : at + size])
            assert answer(sock).read() == b"ok 0.1.0\n"
        sock.sendall(request + request + request[:10])  # pipelined, the last one in two parts
        stream = sock.makefile("rb")
        text = b""
        while text.count(b"ok 0.1.0") < 2:
            text += stream.readline()
        sock.sendall(request[10:])
        while text.count(b"ok 0.1.0") < 3:
            text += stream.readline()


def test_a_body_of_the_allowed_size_arrives_whole(house: House) -> None:
    body = b"address=" + b"a" * 2_000_000
    with connect(house) as sock:
        sock.sendall(head(f"Content-Length: {len(body)}", "Expect: 100-continue"))
        assert sock.recv(25) == b"HTTP/1.1 100 Continue\r\n\r\n"
        sock.sendall(body)
        assert answer(sock).status in {100, 403}  # no CSRF token: it was read by Django
    page_is_quick(house)


def test_responses_that_nobody_reads_keep_no_page_back(house: House) -> None:
    with ExitStack() as stack:
        for _ in range(40):
            sock = socket.socket()
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
            stack.enter_context(sock)
            sock.connect(("127.0.0.1", int(house.address.rstrip("/").rsplit(":", 1)[1])))
            sock.sendall(head(verb="GET", path="/"))
        page_is_quick(house)
        page_is_quick(house)
