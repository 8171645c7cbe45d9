"""A local arXiv: its RSS, Atom and API over HTTP, with every quirk the real ones have.

In a test:

    with ArxivServer(today=date(2026, 3, 4)) as arxiv:
        settings.ARXIV_RSS_URL, settings.ARXIV_API_URL = arxiv.rss_url, arxiv.api_url
        arxiv.behave("truncated", only="rss")

On its own, for `manage.py up` and browsers:

    python -m tests.servers.arxiv --port 8091 --scenario normal
    curl -d '{"scenario": "unavailable"}' localhost:8091/control
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import json
import re
import sys
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from email.utils import format_datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

from tests.servers import arxiv_xml
from tests.servers.corpus import CATEGORIES, Announcement, Corpus
from tests.servers.hostile import hostile_rss
from webapp.papers.days import DAY, eastern_date, last_batch_day

SCENARIOS = {
    "normal": "what arXiv does on a good day",
    "empty": "a valid feed of today without items",
    "stale": "the previous batch under today's date",
    "late": "the previous batch under its own date",
    "hostile": "a normal day with entries that are broken in every way we know",
    "throttled": "429 with Retry-After",
    "unavailable": "503 with Retry-After",
    "broken": "500 without a word",
    "feed-error": "400 with a feed titled 'Feed error for query'",
    "not-a-feed": "200 with an HTML page",
    "truncated": "the answer ends in the middle",
    "latin-1": "bytes of Windows-1252 in a feed that says UTF-8",
    "huge": "a body of 50 MB",
    "bomb": "50 MB of blanks in a small gzip",
    "drip": "a body of one byte every 50 ms",
    "drip-head": "headers of one byte every 50 ms",
    "redirect": "302 to another host",
    "moved": "301 to another path of this host",
    "spurious": "API: an empty first page, once; the truth when asked again",
    "hang-up": "the connection closes without an answer",
}
MAX_RESULTS = 2000  # a page
MAX_START = 30_000


@dataclass
class Request:
    """One request as the server saw it."""

    path: str
    headers: dict[str, str]
    began: float  # time.monotonic()
    status: int = 0


@dataclass
class ArxivServer:
    """A local arXiv; a context manager that serves while it is entered."""

    today: date = field(default_factory=lambda: last_batch_day(eastern_date(datetime.now(UTC))))
    port: int = 0
    per_day: int = 12
    scenario: str = "normal"
    only: str = ""  # the part of arXiv that behaves so: "rss", "atom" or "api"; all when empty
    retry_after: str = "1"
    delay: float = 0.0  # seconds before each answer
    log: list[Request] = field(default_factory=list)
    spoil: Callable[[str, str], str] = lambda path, answer: answer  # what the API sends for a path

    def __post_init__(self) -> None:
        self.corpus = Corpus(self.today, self.per_day)
        self.faults: deque[str] = deque()
        self._asked: set[str] = set()
        handler = type("Handler", (_Handler,), {"arxiv": self})
        self._http = ThreadingHTTPServer(("127.0.0.1", self.port), handler)
        self._http.daemon_threads = True
        self.port = self._http.server_address[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self.rss_url = self.url
        self.api_url = f"{self.url}/api/query"

    def behave(self, scenario: str, only: str = "") -> None:
        """From now on be as SCENARIOS[scenario] says, in one part or everywhere."""
        if scenario not in SCENARIOS:
            raise ValueError(f"{scenario!r}: choose from {', '.join(SCENARIOS)}")
        self.scenario, self.only = scenario, only
        self._asked.clear()

    def then(self, *scenarios: str) -> None:
        """Let the next requests meet these, one each, before the scenario goes on."""
        self.faults.extend(scenarios)

    def be(self, today: date) -> None:
        """Move to another day."""
        self.today = self.corpus.today = today

    def paths(self) -> list[str]:
        """The requested paths, in order."""
        return [request.path for request in self.log]

    def act(self, part: str, path: str) -> str:
        """The scenario that a request for `path` in `part` meets."""
        if self.faults:
            return self.faults.popleft()
        if self.only not in {"", part}:
            return "normal"
        if self.scenario == "spurious":
            first = path not in self._asked
            self._asked.add(path)
            return "spurious" if first else "normal"
        return self.scenario

    def __enter__(self) -> ArxivServer:
        self._thread = threading.Thread(target=self._http.serve_forever, args=(0.05,), daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._http.shutdown()
        self._http.server_close()
        self._thread.join()

    def serve_forever(self) -> None:
        self._http.serve_forever()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    arxiv: ArxivServer
    request_seen: Request

    def do_GET(self) -> None:
        url = urlsplit(self.path)
        if url.path == "/control":
            self._send_json(
                {
                    "scenario": self.arxiv.scenario,
                    "today": self.arxiv.today.isoformat(),
                    "requests": len(self.arxiv.log),
                }
            )
            return
        self.request_seen = Request(self.path, dict(self.headers.items()), time.monotonic())
        self.arxiv.log.append(self.request_seen)
        time.sleep(self.arxiv.delay)
        self._answer(url.path, parse_qs(url.query))

    def do_POST(self) -> None:
        wanted = json.loads(self.rfile.read(int(self.headers["content-length"])))
        if "scenario" in wanted:
            try:
                self.arxiv.behave(wanted["scenario"], wanted.get("only", ""))
            except ValueError as error:
                self._send(400, str(error).encode(), "text/plain")
                return
        if "today" in wanted:
            self.arxiv.be(date.fromisoformat(wanted["today"]))
        if "retry_after" in wanted:
            self.arxiv.retry_after = str(wanted["retry_after"])
        self._send_json({"scenario": self.arxiv.scenario, "today": self.arxiv.today.isoformat()})

    def _answer(self, path: str, query: dict[str, list[str]]) -> None:
        parts = path.strip("/").split("/")
        if parts[0] == "moved":
            parts = parts[1:]
            act = "normal"
        else:
            act = self.arxiv.act(parts[0], self.path)
        rude = _RUDE.get(act)
        if rude is not None:
            rude(self)
        elif parts[0] in {"rss", "atom"} and len(parts) == 2:
            self._feed(parts[0], parts[1], act)
        elif parts == ["api", "query"]:
            self._api({name: values[0] for name, values in query.items()}, act)
        else:
            self._send(404, b"no such page", "text/plain")

    def _feed(self, form: str, category: str, act: str) -> None:
        if not re.fullmatch(r"[a-z-]+(\.[A-Za-z-]+)?", category):
            self._bad_query(category)
            return
        corpus, day = self.arxiv.corpus, self.arxiv.today
        source = last_batch_day(day - DAY) if act in {"stale", "late"} else day
        items: list[Announcement] = [] if act == "empty" else corpus.feed(category, source)
        write = arxiv_xml.rss if form == "rss" else arxiv_xml.atom
        shown = source if act == "late" else day
        body = write(category, shown, items).encode()
        if act == "hostile" and form == "rss":
            body = hostile_rss(category, day, items)
        if act == "latin-1":
            body = body.replace("Þorsson".encode(), b"\xdeorsson")
        if act == "truncated":
            body = body[: len(body) * 2 // 3]
        etag = f'"{hashlib.sha256(body).hexdigest()[:24]}"'
        headers = {
            "ETag": etag,
            "Last-Modified": format_datetime(
                arxiv_xml.midnight(shown).astimezone(UTC), usegmt=True
            ),
            "Cache-Control": "max-age=3600",
        }
        if self.headers.get("If-None-Match") == etag:
            self._send(304, b"", "", headers)
        else:
            self._send(200, body, "application/xml", headers)

    def _api(self, query: dict[str, str], act: str) -> None:
        start, count = int(query.get("start", "0")), int(query.get("max_results", "10"))
        text = query.get("search_query", "")
        if count > MAX_RESULTS or start + count > MAX_START + MAX_RESULTS:
            body = arxiv_xml.error("Error", "max_results must be at most 2000")
            self._send(400, body.encode(), "application/atom+xml")
            return
        found = list(self.arxiv.corpus.latest())
        if ids := query.get("id_list"):
            by_id = {paper.arxiv_id: paper for paper in found}
            wanted = [re.sub(r"v\d+$", "", name) for name in ids.split(",")]
            found = [by_id[name] for name in wanted if name in by_id]
        match = re.search(r"cat:(\S+)", text)
        if match:
            found = [paper for paper in found if match[1] in paper.categories]
        if by := re.search(r'au:"([^"]*)"', text):
            words = set(by[1].casefold().replace(",", " ").split())
            found = [
                paper
                for paper in found
                if any(words <= set(name.casefold().split()) for name, _ in paper.authors)
            ]
        span = re.search(r"submittedDate:\[(\d{12}) TO (\d{12})\]", text)
        if span:
            low, high = (
                datetime.strptime(s, "%Y%m%d%H%M").replace(tzinfo=UTC) for s in span.groups()
            )
            found = [p for p in found if low <= p.submitted < high + timedelta(minutes=1)]
        found.sort(key=lambda paper: paper.submitted)
        page = [] if act in {"spurious", "empty"} else found[start : start + count]
        total = 0 if act == "empty" or (act == "spurious" and start == 0) else len(found)
        answer = self.arxiv.spoil(self.path, arxiv_xml.api(text, page, total, start))
        body = answer.encode("utf-8", "surrogateescape")
        if act == "truncated":
            body = body[: len(body) * 2 // 3]
        self._send(200, body, "application/atom+xml")

    def _bad_query(self, text: str) -> None:
        body = arxiv_xml.error(f"Feed error for query: {text}", "bad query")
        self._send(400, body.encode(), "application/xml")

    def _throttled(self) -> None:
        self._send(429, b"Rate exceeded.", "text/plain", {"Retry-After": self.arxiv.retry_after})

    def _unavailable(self) -> None:
        self._send(503, b"Unavailable", "text/plain", {"Retry-After": self.arxiv.retry_after})

    def _broken(self) -> None:
        self._send(500, b"", "text/plain")

    def _feed_error(self) -> None:
        self._bad_query(self.path)

    def _not_a_feed(self) -> None:
        page = b"<!doctype html><title>Maintenance</title><p>Back soon.<br>Really"
        self._send(200, page, "text/html")

    def _huge(self) -> None:
        self.send_response(200)
        self.send_header("Connection", "close")
        self.end_headers()
        blanks = b" " * 2**20
        for _ in range(50):
            self.wfile.write(blanks)

    def _bomb(self) -> None:
        body = gzip.compress(b"<rss>" + b" " * (50 * 2**20))
        self._send(200, body, "application/xml", {"Content-Encoding": "gzip"})

    def _drip(self) -> None:
        self.send_response(200)
        self.send_header("Content-Length", "1000000")
        self.end_headers()
        self._slowly(b"<rss>" + b" " * 2000)

    def _drip_head(self) -> None:
        self._slowly(b"HTTP/1.1 200 OK\r\nX-Slow: " + b"a" * 2000)

    def _slowly(self, text: bytes) -> None:
        self.close_connection = True
        for letter in text:
            self.wfile.write(bytes([letter]))
            self.wfile.flush()
            time.sleep(0.05)

    def _redirect(self) -> None:
        self._send(302, b"", "", {"Location": f"http://localhost.invalid{self.path}"})

    def _moved(self) -> None:
        self._send(301, b"", "", {"Location": f"/moved{self.path}"})

    def _hang_up(self) -> None:
        self.close_connection = True

    def _send_json(self, value: dict[str, Any]) -> None:
        self._send(200, json.dumps(value).encode(), "application/json")

    def _send(
        self, status: int, body: bytes, kind: str, headers: dict[str, str] | None = None
    ) -> None:
        if hasattr(self, "request_seen"):
            self.request_seen.status = status
        headers = dict(headers or {})
        packs = "gzip" in self.headers.get("Accept-Encoding", "") and kind.endswith("xml")
        if packs and "Content-Encoding" not in headers:
            body = gzip.compress(body, mtime=0)
            headers["Content-Encoding"] = "gzip"
        self.send_response(status)
        if kind:
            self.send_header("Content-Type", kind)
        for name, value in headers.items():
            self.send_header(name, value)
        if status != 304:
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def handle(self) -> None:
        try:
            super().handle()
        except (BrokenPipeError, ConnectionResetError):
            self.close_connection = True  # the client had enough

    def log_message(self, *_: object) -> None:
        """Keep still; `ArxivServer.log` has every request."""


_RUDE: dict[str, Callable[[_Handler], None]] = {
    "throttled": _Handler._throttled,
    "unavailable": _Handler._unavailable,
    "broken": _Handler._broken,
    "feed-error": _Handler._feed_error,
    "not-a-feed": _Handler._not_a_feed,
    "huge": _Handler._huge,
    "bomb": _Handler._bomb,
    "drip": _Handler._drip,
    "drip-head": _Handler._drip_head,
    "redirect": _Handler._redirect,
    "moved": _Handler._moved,
    "hang-up": _Handler._hang_up,
}


def main() -> None:
    """Serve until stopped."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--scenario", choices=SCENARIOS, default="normal")
    parser.add_argument("--today", type=date.fromisoformat, help="an arXiv day, as 2026-03-04")
    parser.add_argument("--per-day", type=int, default=12, help="new papers a category and day")
    options = parser.parse_args()
    given = {"today": options.today} if options.today else {}
    server = ArxivServer(
        port=options.port, scenario=options.scenario, per_day=options.per_day, **given
    )
    print(f"ASSAY_ARXIV_RSS_URL={server.rss_url} ASSAY_ARXIV_API_URL={server.api_url}", flush=True)
    print(f"{server.today}: {', '.join(CATEGORIES)}; control at {server.url}/control", flush=True)
    try:
        server.serve_forever()
    except KeyboardInterrupt:
        sys.exit(0)


if __name__ == "__main__":
    main()
