"""The cost of pages and searches on a large site, beside their targets.

    python -m benchmarks.scale --papers 100000 --runs 10000 [--database postgresql] [--keep DIR]

Builds a site of that size, going on where it was stopped if `--keep` names the same folder, and
asks it for its pages in this process. A page's cost is what the process's own account of CPU time
says (the median), its queries, the rows that they gave, what SQLite stepped through to find them,
and its size in Brotli. `anew`: made for the first reader; `kept`: for the next. Prints each figure
beside its target and fails over one. The abstracts are the sentences of real ones, shuffled: those
of the sample day, or of `--input`, JSON lines with title and summary. `--sanity DIR` puts the
pages of arxiv-sanity-lite, whose checkout DIR is, beside ours.
"""

import gc
import os
import random
import re
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

from assay_common.terminal import table
from benchmarks import sanity
from benchmarks.figures import arguments
from benchmarks.large_site import LAST_DAY, build, empty_site, old_day, open_run

SEARCH_MS = 150.0  # CPU time of the slowest search in a hundred


@dataclass(frozen=True)
class Page:
    """A page and its targets; `unchanged` requests it with its current ETag."""

    name: str
    address: str
    anew_ms: float = 30.0
    kept_ms: float = 3.0
    queries: int = 12
    kept_queries: int = 12
    signed_in: bool = False
    kilobytes: float = 30.0
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    unchanged: bool = False


def _look(name: str, seen: str, status: int = 200) -> Page:
    """A poll of a run's page."""
    asked = {"HX-Request": "true"}
    return Page(name, f"/runs/{{run}}/live?seen={seen}", status=status, headers=asked)


PAGES = (
    Page("digest", "/", kept_ms=1.0, queries=5, kept_queries=1),
    Page("digest, signed in", "/", kept_ms=8.0, signed_in=True),
    Page("digest, unchanged", "/", kept_ms=0.7, status=304, unchanged=True, kept_queries=1),
    Page("digest of an old day", "/digest/{old}/", queries=5, kept_queries=1),
    Page("category", "/category/cs.CL/", kept_queries=1),
    # One query more where there is an encoder, for its vectors.
    Page("a paper", "/papers/{paper}/", queries=14, kept_queries=2),
    Page("a paper, signed in", "/papers/{paper}/", kept_ms=8.0, queries=19, signed_in=True),
    Page("methods", "/methods/", kept_queries=1),
    Page("a method", "/methods/sparse_attention/", kilobytes=60.0, kept_queries=1),
    Page("runs", "/runs/", kept_queries=1),
    Page("feed of runs", "/runs.rss", kilobytes=60.0, kept_queries=1),
    Page("feed of the digest", "/digest.rss", kilobytes=120.0, kept_queries=1),
    *(
        Page(f"{path[1:]}, unchanged", path, 80.0, 1.0, kept_queries=1, status=304, unchanged=True)
        for path in (
            *("/digest.rss", "/digest.atom", "/digest.json", "/category/cs.CL.rss", "/feeds/opml"),
            *("/runs.rss", "/methods/sparse_attention.rss"),
        )
    ),
    Page("intake", "/intake/", kept_queries=2),
    _look("a run, nothing new", "{seen}", status=204),
    _look("a run that moved", "running.1..6.{heard}"),
    _look("a run with more log", "running.1..6.{before}"),
)


@dataclass
class Cost:
    """The cost of one response."""

    ms: float = 0.0
    queries: int = 0
    rows: int = 0
    steps: int = 0  # thousands of SQLite's virtual machine, 0 on PostgreSQL
    size: int = 0  # bytes


def main() -> int:
    """Build, measure, print; the exit status."""
    parser = arguments(__doc__, papers=1_000_000, runs=100_000)
    parser.add_argument("--database", choices=["sqlite", "postgresql"], default="sqlite")
    parser.add_argument("--input", type=Path, help="JSON lines of papers (default: the sample day)")
    parser.add_argument("--keep", type=Path, help="a folder for the site, used again")
    parser.add_argument("--sanity", type=Path, help="a checkout of karpathy/arxiv-sanity-lite")
    options = parser.parse_args()
    if options.sanity:
        sanity.python_of(options.sanity)  # report what it lacks before building for hours
    with ExitStack() as stack:
        if options.database == "postgresql":
            given = os.environ.get("DATABASE_URL", "")
            os.environ["DATABASE_URL"] = given or stack.enter_context(postgresql(options.keep))
        stack.enter_context(empty_site(options.keep))
        build(options.papers, options.runs, options.input)
        gc.collect()
        gc.freeze()  # as the web server does before it forks
        pages_hold, searches_hold = report_pages(), report_searches()
        if options.sanity:
            report_beside(options.sanity)
        return int(not (pages_hold and searches_hold))


@contextmanager
def postgresql(keep: Path | None) -> Iterator[str]:
    """The URL of a cluster beside the folder `keep`, or of a temporary one."""
    from tests import machine
    from tests.servers import stores

    programs = Path(machine.POSTGRESQL.find() or sys.exit(machine.POSTGRESQL.why_not)).parent
    if keep is None:
        with stores.postgresql(programs) as url:
            yield url
        return
    # Beside the folder, which only its owner may enter: PostgreSQL runs as another user.
    (folder := keep.with_name(f"{keep.name}-cluster").resolve()).mkdir(parents=True, exist_ok=True)
    cluster = stores.Cluster(programs, folder)
    if not (folder / "data").exists():
        cluster.make()
    with cluster.running():
        yield cluster.url


@contextmanager
def measured() -> Iterator[Cost]:
    """Measure a block: CPU time, also PostgreSQL's, and what the database does meanwhile."""
    from django.db import connection
    from django.db.backends.utils import CursorWrapper

    cost = Cost()

    class Counting(CursorWrapper):
        def execute(self, *given: Any) -> Any:
            cost.queries += 1
            return super().execute(*given)

        def fetchone(self) -> Any:
            row = self.cursor.fetchone()
            cost.rows += row is not None
            return row

        def fetchmany(self, *given: Any) -> Any:
            return self._counted(self.cursor.fetchmany(*given))

        def fetchall(self) -> Any:
            return self._counted(self.cursor.fetchall())

        def _counted(self, rows: Sequence[Any]) -> Sequence[Any]:
            cost.rows += len(rows)
            return rows

    def step() -> None:
        cost.steps += 1

    connection.ensure_connection()
    make_cursor = connection.make_cursor
    connection.make_cursor = lambda cursor: Counting(cursor, connection)  # type: ignore[method-assign]
    if connection.vendor == "sqlite":
        connection.connection.set_progress_handler(step, 1_000)
    server = _server_seconds()
    began = time.process_time() + server()
    try:
        yield cost
    finally:
        cost.ms = (time.process_time() + server() - began) * 1000
        connection.make_cursor = make_cursor  # type: ignore[method-assign]
        if connection.vendor == "sqlite":
            connection.connection.set_progress_handler(None, 0)


def _server_seconds() -> Callable[[], float]:
    """A function for the CPU time of this connection's PostgreSQL process; 0 on SQLite.

    The server must run on this machine.
    """
    from django.db import connection

    if connection.vendor != "postgresql":
        return lambda: 0.0
    account = Path(f"/proc/{connection.connection.info.backend_pid}/schedstat")
    return lambda: int(account.read_text().split()[0]) / 1e9


def ask(page: Page, times: int = 20) -> tuple[Cost, Cost]:
    """The cost of a page anew and kept, each requested `times` times."""
    from django.contrib.auth import get_user_model
    from django.core.handlers.base import BaseHandler
    from django.test import Client, RequestFactory

    from webapp.papers.models import Paper
    from webapp.runs.web.run_page import seen_now
    from webapp.ui import pages

    handler = BaseHandler()  # all middleware, without the test client's own work
    handler.load_middleware()
    requests = RequestFactory(headers={"accept-encoding": "br", "host": "localhost"})
    if page.signed_in:
        user, _ = get_user_model().objects.get_or_create(username="reader")
        (client := Client()).force_login(user)
        requests.cookies = client.cookies
    now = seen_now(run := open_run())
    heard = {"heard": now.last_event, "before": now.last_event - 1}
    paper = Paper.objects.latest("announced_on", "pk").arxiv_id
    address = page.address.format(old=old_day(), paper=paper, run=run.pk, seen=now, **heard)
    headers = dict(page.headers)
    if page.unchanged:
        headers["if-none-match"] = handler.get_response(requests.get(address))["ETag"]
    costs = []
    for number in range(2 * times + 1):
        if number <= times:  # the first fills the caches of templates and imports
            pages.cache.clear()
        request = requests.get(address, headers=headers)
        with measured() as cost:
            response = handler.get_response(request)
            body = b"".join(response)
        cost.size = len(body)
        assert response.status_code == page.status, f"{address} answers {response.status_code}"
        costs.append(cost)
    anew, kept = costs[1], costs[-1]
    anew.ms = statistics.median(cost.ms for cost in costs[1 : times + 1])
    kept.ms = statistics.median(cost.ms for cost in costs[times + 1 :])
    return anew, kept


def report_pages() -> bool:
    """Print every page's costs beside their targets; whether all hold."""
    heads = ("page", "anew ms", "kept ms", "queries", "kept q.", "kB", "rows", "steps/1000", "")
    rows = []
    for page in PAGES:
        anew, kept = ask(page)
        pairs = (
            (anew.ms, page.anew_ms),
            (kept.ms, page.kept_ms),
            (anew.queries, page.queries),
            (kept.queries, page.kept_queries),
            (kept.size / 1000, page.kilobytes),
        )
        holds = all(found <= most for found, most in pairs)
        cells = [f"{found:.4g} ≤ {most:g}" for found, most in pairs]
        counts = map(str, (anew.rows, anew.steps))
        rows.append((page.name, *cells, *counts, "" if holds else "missed"))
    print(table(heads, rows, heads[1:-1]))
    return not any(missed for *_, missed in rows)


def kinds_of_search() -> dict[str, Callable[[], object]]:
    """Each kind of search, with words as frequent as in papers."""
    from webapp.papers.models import Paper
    from webapp.papers.search import search

    chance = random.Random(3)
    texts = Paper.objects.order_by("pk").values_list("abstract", flat=True)[:2_000]
    words: list[str] = [word for text in texts for word in re.findall(r"[a-z]{4,}", text)]
    week = LAST_DAY - timedelta(days=7)
    common = ("model", "language", "training", "learning", "data", "results")

    def word() -> str:
        return chance.choice(words)

    def pair() -> str:
        at = chance.randrange(len(words) - 1)
        return f'"{words[at]} {words[at + 1]}"'

    return {
        "one word": lambda: search(word()),
        "two words": lambda: search(f"{word()} {word()}"),
        "common words together": lambda: search(" ".join(chance.sample(common, 3))),
        "phrase": lambda: search(pair()),
        "phrase without a hit": lambda: search(f'"{word()} zebra {word()}"'),
        "short beginning": lambda: search(f"{word()[:3]}*"),
        "long beginning": lambda: search(f"{word()[:5]}*"),
        "author and word": lambda: search(f"au:{word()} {word()}"),
        "excluding a common word": lambda: search(f"{word()} -{chance.choice(common)}"),
        "word in a category": lambda: search(word(), "cs.DC"),
        "word of the last week": lambda: search(word(), since=week),
        "days alone": lambda: search(f"after:{LAST_DAY.year - chance.randrange(5)}"),
        "misspelt word": lambda: search((written := word()) + written[-1] * 2),
        "page 10, latest first": lambda: search(chance.choice(common), page=10, order="newest"),
    }


def count_search(search: Callable[[], object]) -> Cost:
    """The cost of a search."""
    with measured() as cost:
        search()
    return cost


def report_searches() -> bool:
    """Print the cost of each kind of search beside its target; whether all hold."""
    rows = []
    for name, search in kinds_of_search().items():
        costs = [count_search(search) for _ in range(100)]
        taken = [cost.ms for cost in costs]
        p99 = statistics.quantiles(taken, n=100)[98]
        times = (f"{statistics.median(taken):.1f}", f"{p99:.1f} ≤ {SEARCH_MS:g}")
        counts = map(str, (costs[-1].queries, costs[-1].rows, costs[-1].steps))
        rows.append((name, *times, *counts, "" if p99 <= SEARCH_MS else "missed"))
    heads = ("search", "p50 ms", "p99 ms", "queries", "rows", "steps/1000", "")
    print(table(heads, rows, heads[1:-1]))
    return not any(missed for *_, missed in rows)


def report_beside(checkout: Path) -> None:
    """Print the cost of pages for anonymous visitors, here and in arxiv-sanity-lite."""
    from webapp.papers.models import Paper
    from webapp.ui.encodings import encoded
    from webapp.ui.pages import EFFORT

    papers = Paper.objects.order_by("-announced_on", "-pk")[: sanity.PAPERS]
    paper = papers[0].arxiv_id
    pages = (
        ("digest; its front page", "/", "/"),
        ("search", "/search?q=language+model", "/?q=language+model"),
        ("a paper", f"/papers/{paper}/", f"/inspect?pid={paper}"),
    )
    theirs = sanity.measure(checkout, papers, [address for *_, address in pages])
    rows = []
    for (name, address, _), (ms, html) in zip(pages, theirs, strict=True):
        anew, kept = ask(Page(name, address))
        sizes = (len(encoded(html.encode(), "br", EFFORT)) / 1000, len(html.encode()) / 1000)
        figures = (anew.ms, kept.ms, kept.size / 1000, ms, *sizes)
        rows.append((name, *(f"{figure:.4g}" for figure in figures)))
    print(f"beside arxiv-sanity-lite, which holds the newest {len(papers):,} papers")
    heads = ("page", "anew ms", "kept ms", "kB", "its ms", "its kB", "uncompressed, as it sends")
    print(table(heads, rows, heads[1:]))


if __name__ == "__main__":
    sys.exit(main())
