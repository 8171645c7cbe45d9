"""The speed of the digest page over real HTTP: gunicorn, 20,000 papers, a day of 50 cards.

    python -m benchmarks.web [--seconds 5] [--workers 2]

Clients keep their connections alive and only count bytes, so that on a machine of few cores the
server gets most of the time. Fails if a target is missed.
"""

import statistics
import sys
import tempfile
import time
from http.client import HTTPConnection, HTTPResponse
from multiprocessing import get_context
from pathlib import Path
from urllib.parse import urlsplit

from benchmarks.figures import Figure, arguments, report
from tests.machine import CHROMIUM
from tests.servers.site import Site, serving

BROTLI = {"Accept-Encoding": "br"}


def get(connection: HTTPConnection, headers: dict[str, str]) -> tuple[HTTPResponse, int]:
    """The response of the digest page, and the length of its body."""
    connection.request("GET", "/", headers=headers)
    response = connection.getresponse()
    return response, len(response.read())


def latencies(host: str, seconds: float, headers: dict[str, str], status: int) -> list[float]:
    """Milliseconds of each request of one client, after a warm-up of every worker."""
    for _ in range(8):
        warm = HTTPConnection(host)
        for _ in range(5):
            get(warm, headers)
    connection = HTTPConnection(host)
    taken = []
    until = time.perf_counter() + seconds
    while time.perf_counter() < until:
        began = time.perf_counter()
        response, _ = get(connection, headers)
        taken.append((time.perf_counter() - began) * 1000)
        assert response.status == status, response.status
    return taken


def _count_answers(host: str, until: float) -> int:
    """Count the requests of one client that are answered by a deadline."""
    connection, answered = HTTPConnection(host), 0
    while time.time() < until:
        response, _ = get(connection, BROTLI)
        assert response.status == 200, response.status
        answered += 1
    return answered


def throughput(host: str, seconds: float, clients: int) -> float:
    """Requests a second of that many clients, each a process of its own."""
    with get_context("fork").Pool(clients) as pool:
        began = time.time()
        given = (host, began + seconds)
        answered = sum(pool.starmap(_count_answers, [given] * clients, chunksize=1))
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
    host = urlsplit(site.address).netloc
    first, size = get(HTTPConnection(host), BROTLI)
    _, gzipped = get(HTTPConnection(host), {"Accept-Encoding": "gzip"})
    taken = latencies(host, seconds, BROTLI, 200)
    known = BROTLI | {"If-None-Match": first.headers["ETag"]}
    again = latencies(host, seconds / 2, known, 304)
    crowd = throughput(host, seconds, 16)
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
