"""How fast the digest page is, over real HTTP: gunicorn, 20,000 papers, a day of 50 cards.

    python -m benchmarks.web [--seconds 5] [--workers 2]

The client speaks over raw keep-alive sockets and only counts bytes, so that on a machine of few
cores the server gets most of the time. Fails where DESIGN.md's targets are missed.
"""

import socket
import statistics
import sys
import tempfile
import time
from multiprocessing import get_context
from pathlib import Path
from urllib.parse import urlsplit

from benchmarks.figures import Figure, arguments, report
from tests.machine import CHROMIUM
from tests.servers.site import Site, serving


class Connection:
    """One keep-alive connection."""

    def __init__(self, address: str) -> None:
        parts = urlsplit(address)
        assert parts.hostname is not None
        self.host = parts.netloc
        self.socket = socket.create_connection((parts.hostname, parts.port or 80))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def get(self, path: str, headers: str = "Accept-Encoding: br\r\n") -> tuple[int, bytes, int]:
        """Status, head and length of the body of one answer."""
        request = f"GET {path} HTTP/1.1\r\nHost: {self.host}\r\n{headers}\r\n"
        self.socket.sendall(request.encode())
        data = b""
        while (end := data.find(b"\r\n\r\n")) < 0:
            data += self._more()
        head = data[:end].lower()
        at = head.find(b"content-length:")
        length = int(head[at + 15 :].split(b"\r\n", 1)[0]) if at >= 0 else 0
        left = length - (len(data) - end - 4)
        while left > 0:
            left -= len(self._more())
        return int(head[9:12]), data[:end], length

    def _more(self) -> bytes:
        data = self.socket.recv(1 << 18)
        if not data:
            raise ConnectionError("the server hung up")
        return data


def latencies(site: Site, path: str, seconds: float, headers: str, status: int) -> list[float]:
    """Milliseconds of each request of one client, after a warm-up of every worker."""
    for _ in range(8):
        warm = Connection(site.address)
        for _ in range(5):
            warm.get(path, headers)
    connection = Connection(site.address)
    taken = []
    until = time.perf_counter() + seconds
    while time.perf_counter() < until:
        began = time.perf_counter()
        answered, _, _ = connection.get(path, headers)
        taken.append((time.perf_counter() - began) * 1000)
        assert answered == status, answered
    return taken


def _hammer(address: str, path: str, until: float) -> int:
    """How many requests one client got answered until then."""
    connection, answered = Connection(address), 0
    while time.time() < until:
        status, _, _ = connection.get(path)
        assert status == 200, status
        answered += 1
    return answered


def throughput(site: Site, path: str, seconds: float, clients: int) -> float:
    """Requests a second of so many clients, each a process of its own."""
    with get_context("fork").Pool(clients) as crowd:
        began = time.time()
        given = (site.address, path, began + seconds)
        answered = sum(crowd.starmap(_hammer, [given] * clients, chunksize=1))
        return answered / (time.time() - began)


def transferred(site: Site, chromium: str) -> int:
    """Bytes a fresh browser receives for the page and everything it needs."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        page = browser.new_page()
        session = page.context.new_cdp_session(page)
        session.send("Network.enable")
        received: list[float] = []
        session.on("Network.loadingFinished", lambda e: received.append(e["encodedDataLength"]))
        page.goto(site.address)
        page.wait_for_load_state("networkidle")
        browser.close()
    return int(sum(received))


def measure(site: Site, seconds: float) -> list[Figure]:
    """Every figure of the table."""
    accept = "Accept-Encoding: br\r\n"
    _, head, size = Connection(site.address).get("/", accept)
    etag = next(line[5:].strip() for line in head.decode().split("\r\n") if line[:5] == "ETag:")
    taken = latencies(site, "/", seconds, accept, 200)
    _, _, gzipped = Connection(site.address).get("/", "Accept-Encoding: gzip\r\n")
    again = latencies(site, "/", seconds / 2, f"{accept}If-None-Match: {etag}\r\n", 304)
    crowd = throughput(site, "/", seconds, 16)
    figures = [
        Figure("digest page, 1 client, p50", statistics.median(taken), "ms", 5),
        Figure("digest page, 1 client, p99", statistics.quantiles(taken, n=100)[98], "ms", 50),
        Figure("digest page, 16 clients", crowd, "req/s", 500, least=True),
        Figure("digest page unchanged (304), p50", statistics.median(again), "ms", 5),
        Figure("HTML, Brotli", size / 1000, "kB", 30),
        Figure("HTML, gzip", gzipped / 1000, "kB", 30),
    ]
    if chromium := CHROMIUM.find():
        whole = transferred(site, chromium) / 1000
        figures.append(Figure("everything, in Chromium", whole, "kB", 110))
    return figures


def main() -> int:
    """Measure, print, and fail over a target; the exit status."""
    options = arguments(__doc__, seconds=5.0, workers=2).parse_args()
    with (
        tempfile.TemporaryDirectory() as folder,
        serving(Path(folder), "big", options.workers) as site,
    ):
        return report(measure(site, options.seconds))


if __name__ == "__main__":
    sys.exit(main())
