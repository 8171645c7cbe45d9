"""What pages and searches cost on a large site, beside what they may cost.

    python -m benchmarks.scale --papers 100000 --runs 10000 [--database postgresql] [--keep DIR]

Builds a site of that size, going on where it was stopped if `--keep` names the same folder, and
asks it for its pages in this process. A page's cost is what the process's own account of CPU time
says (the median), its queries, the rows that they gave, what SQLite stepped through to find them,
and its size in Brotli. `anew`: made for the first reader; `kept`: for the next. Prints each figure
beside its target and fails over one. The abstracts are the sentences of real ones, shuffled: those
of the sample day, or of `--input`, JSON lines with title and summary.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from itertools import islice
from pathlib import Path
from typing import Any

from benchmarks.empty_site import empty_site

LAST_DAY = date(2026, 6, 12)
CATEGORIES = ("cs.AI", "cs.CL", "cs.DC", "cs.LG")
A_DAY = 400  # papers, on a site of many
SHOWN_DAYS = 5  # with listings and digests
SEARCH_MS = 150.0  # CPU of the slowest search in a hundred
SEARCH_QUERIES = 20


@dataclass(frozen=True)
class Page:
    """A page and what it may cost."""

    name: str
    address: str
    anew_ms: float = 30.0
    kept_ms: float = 3.0
    queries: int = 12
    signed_in: bool = False
    kilobytes: float = 30.0


PAGES = (
    Page("digest", "/", queries=5),
    Page("digest, signed in", "/", kept_ms=8.0, signed_in=True),
    Page("digest of an old day", "/digest/{old}/", queries=5),
    Page("category", "/category/cs.CL/"),
    Page("methods", "/methods/"),
    Page("a method", "/methods/sparse_attention/", kilobytes=60.0),
    Page("runs", "/runs/", kept_ms=30.0),
    Page("feed of runs", "/runs.rss", kept_ms=30.0, kilobytes=60.0),
    Page("feed of the digest", "/digest.rss", kilobytes=120.0),
    Page("intake", "/intake/", kept_ms=30.0),
)


@dataclass
class Cost:
    """What one answer took."""

    ms: float = 0.0
    queries: int = 0
    rows: int = 0
    steps: int = 0  # thousands of SQLite's virtual machine, 0 on PostgreSQL
    size: int = 0  # bytes


def main() -> int:
    """Build, measure, print; the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--papers", type=int, default=1_000_000)
    parser.add_argument("--runs", type=int, default=100_000)
    parser.add_argument("--database", choices=["sqlite", "postgresql"], default="sqlite")
    parser.add_argument("--input", type=Path, help="JSON lines of papers (default: the sample day)")
    parser.add_argument("--keep", type=Path, help="a folder for the site, used again")
    options = parser.parse_args()
    with ExitStack() as stack:
        if options.database == "postgresql":
            given = os.environ.get("DATABASE_URL", "")
            os.environ["DATABASE_URL"] = given or stack.enter_context(_postgresql())
        stack.enter_context(empty_site(options.keep))
        from django.conf import settings

        settings.STORAGES["staticfiles"]["BACKEND"] = (
            "django.contrib.staticfiles.storage.StaticFilesStorage"
        )
        build(options.papers, options.runs, options.input)
        pages_hold, searches_hold = report_pages(), report_searches()
        return int(not (pages_hold and searches_hold))


def _postgresql() -> Any:
    from tests import machine
    from tests.servers import stores

    initdb = machine.POSTGRESQL.find()
    if not initdb:
        raise SystemExit(machine.POSTGRESQL.why_not)
    return stores.postgresql(Path(initdb).parent)


def build(papers: int, runs: int, source: Path | None = None) -> None:
    """Add papers and runs until there are as many, and digests of the last days."""
    from django.core.management import call_command
    from django.db import connection

    from methods.terminal import progress_bar
    from webapp.digests.build import build as build_digests
    from webapp.papers.models import Announcement, Listing, Paper
    from webapp.runs.models import Run

    with progress_bar() as bar:
        task = bar.add_task("papers", total=papers, completed=(there := Paper.objects.count()))
        made = islice(_papers(papers, _texts(source)), there, papers)
        while batch := list(islice(made, 2_000)):
            Paper.objects.bulk_create(batch, batch_size=500)
            bar.advance(task, len(batch))
        if not Run.objects.filter(imported=True).exists():
            call_command("import_results", verbosity=0, stdout=sys.stderr)
        task = bar.add_task("runs", total=runs, completed=(there := Run.objects.count()))
        while (missing := runs - there) > 0:
            _add_runs(there, min(missing, 1_000))
            bar.advance(task, min(missing, 1_000))
            there += min(missing, 1_000)
    days = [*(LAST_DAY - timedelta(back) for back in range(SHOWN_DAYS)), old_day()]
    for day in days:
        for category in CATEGORIES:
            moment = datetime(day.year, day.month, day.day, tzinfo=UTC)
            listing, is_new = Listing.objects.get_or_create(
                category=category,
                date=day,
                defaults={
                    "state": "complete",
                    "source": "rss",
                    "polled_at": moment,
                    "changed_at": moment,
                },
            )
            if is_new:
                found = Paper.objects.filter(announced_on=day, primary_category=category)
                Announcement.objects.bulk_create(
                    Announcement(listing=listing, paper=paper, type="new", version=1)
                    for paper in found
                )
    build_digests(days)
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE")


def old_day() -> date:
    """A day of a year ago, or the first there is."""
    from webapp.papers.models import Paper

    first = Paper.objects.order_by("announced_on").values_list("announced_on", flat=True)[0]
    return max(LAST_DAY - timedelta(365), first)


def _texts(source: Path | None) -> list[tuple[str, str]]:
    """Titles and abstracts of real papers, or of the sample day."""
    from webapp.papers.formats import parse_feed
    from webapp.papers.sample import SAMPLE, SAMPLE_DAY

    if source is None:
        batch = parse_feed(SAMPLE.read_bytes(), "cs.AI", SAMPLE_DAY)
        return [(entry.title, entry.abstract) for entry in batch.entries]
    with source.open() as lines:
        papers = [json.loads(line) for line in lines]
    return [(paper["title"], paper["summary"]) for paper in papers]


def _papers(count: int, texts: list[tuple[str, str]]) -> Iterator[Any]:
    """`count` papers, the same ones every time; of each six one of an old day comes late."""
    from webapp.papers.models import Paper
    from webapp.ui.markup import render

    chance = random.Random(17)
    sentences = [one for _, text in texts for one in re.split(r"(?<=[.?!])\s+", text) if one]
    words = [word for title, _ in texts for word in title.split()]
    a_day = min(A_DAY, max(count // 400, 40))
    days = -(-count // a_day)
    for number in range(count):
        place = number if number % 6 else chance.randrange(count)
        title = " ".join(chance.sample(words, 9))
        abstract = " ".join(chance.sample(sentences, 7))
        categories = chance.sample(CATEGORIES, chance.choice((1, 1, 2)))
        day = LAST_DAY - timedelta(days=days - 1 - place // a_day)
        shown = (LAST_DAY - day).days in {*range(SHOWN_DAYS), min(365, days - 1)}
        yield Paper(
            arxiv_id=f"{number // 100_000:04d}.{number % 100_000:05d}",
            title=title,
            abstract=abstract,
            title_html=render(title) if shown else "",
            abstract_html=render(abstract) if shown else "",
            authors=[{"name": f"{chance.choice(words)} {chance.choice(words)}"} for _ in range(3)],
            primary_category=categories[0],
            categories=categories,
            announced_on=day,
            enriched_at=datetime(2026, 6, 13, tzinfo=UTC),
        )


def _add_runs(first: int, count: int) -> None:
    """Runs like those that are published, each with the first of its series."""
    from webapp.runs.models import Run, Series

    models = list(Run.objects.filter(imported=True).prefetch_related("series")[:20])
    copies, series = [], []
    for number in range(first, first + count):
        model = models[number % len(models)]
        finished = datetime(2026, 1, 1, tzinfo=UTC) + timedelta(minutes=number)
        copies.append(
            Run(
                method=model.method,
                benchmark=model.benchmark,
                version=model.version,
                device=model.device,
                params=model.params,
                limit_seconds=300,
                state="succeeded",
                token=f"token-{number}",
                queued_at=finished,
                started_at=finished,
                finished_at=finished,
                environment=model.environment,
                result=model.result,
            )
        )
        series += [Series(run=copies[-1], name=s.name, data=s.data) for s in model.series.all()[:1]]
    Run.objects.bulk_create(copies, batch_size=200)
    Series.objects.bulk_create(series, batch_size=200)


@contextmanager
def _counted(cost: Cost) -> Iterator[None]:
    """Count what the database does meanwhile."""
    from django.db import connection
    from django.db.backends.utils import CursorWrapper

    class Counting(CursorWrapper):
        def execute(self, *arguments: Any) -> Any:
            cost.queries += 1
            return super().execute(*arguments)

        def fetchone(self) -> Any:
            row = self.cursor.fetchone()
            cost.rows += row is not None
            return row

        def fetchmany(self, *arguments: Any) -> Any:
            rows = self.cursor.fetchmany(*arguments)
            cost.rows += len(rows)
            return rows

        def fetchall(self) -> Any:
            rows = self.cursor.fetchall()
            cost.rows += len(rows)
            return rows

    def step() -> None:
        cost.steps += 1

    connection.ensure_connection()
    connection.make_cursor = lambda cursor: Counting(cursor, connection)
    if connection.vendor == "sqlite":
        connection.connection.set_progress_handler(step, 1_000)
    try:
        yield
    finally:
        del connection.make_cursor
        if connection.vendor == "sqlite":
            connection.connection.set_progress_handler(None, 0)


def ask(page: Page, times: int = 20) -> tuple[Cost, Cost]:
    """What the page costs anew and kept; `times` is how often the kept one is asked for."""
    from django.contrib.auth import get_user_model
    from django.test import Client

    from webapp.ui import pages

    client = Client(headers={"accept-encoding": "br", "host": "localhost"})
    if page.signed_in:
        client.force_login(get_user_model().objects.get_or_create(username="reader")[0])
    address = page.address.format(old=old_day())
    taken = []
    costs = []
    for number in range(times + 2):
        if number < 2:  # the first fills the caches of templates and imports
            pages.cache.clear()
        cost = Cost()
        began = time.process_time()
        with _counted(cost):
            response = client.get(address)
            body = b"".join(response) if response.streaming else response.content
        cost.ms, cost.size = (time.process_time() - began) * 1000, len(body)
        assert response.status_code == 200, f"{address} answers {response.status_code}"
        costs.append(cost)
        taken.append(cost.ms)
    kept = costs[-1]
    kept.ms = statistics.median(taken[2:])
    return costs[1], kept


def report_pages() -> bool:
    """Print every page's costs beside their targets; whether all hold."""
    from methods.terminal import table

    heads = ("page", "anew ms", "≤", "kept ms", "≤ ", "queries", "≤  ", "kept q.", "rows",
             "steps/1000", "kB", "≤   ", "")  # fmt: skip
    rows, hold = [], True
    for page in PAGES:
        anew, kept = ask(page)
        size = kept.size / 1000
        holds = (
            anew.ms <= page.anew_ms
            and kept.ms <= page.kept_ms
            and anew.queries <= page.queries
            and size <= page.kilobytes
        )
        hold = hold and holds
        times = (anew.ms, page.anew_ms, kept.ms, page.kept_ms)
        counts = (anew.queries, page.queries, kept.queries, anew.rows, anew.steps)
        cells = [*(f"{one:.1f}" for one in times), *map(str, counts), f"{size:.1f}"]
        rows.append((page.name, *cells, f"{page.kilobytes:g}", "" if holds else "missed"))
    print(table(heads, rows, heads[1:-1]))
    return hold


def kinds_of_search() -> dict[str, Callable[[], object]]:
    """Every kind of search, with words as often as papers hold them."""
    from webapp.papers.models import Paper
    from webapp.papers.search import search

    chance = random.Random(3)
    texts = Paper.objects.order_by("pk").values_list("abstract", flat=True)[:2_000]
    words = [word for text in texts for word in re.findall(r"[a-z]{4,}", text)]
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
        "page 10, latest first": lambda: search(chance.choice(common), page=10, order="newest"),
    }


def count_search(search: Callable[[], object]) -> Cost:
    """What a search asks of the database."""
    cost = Cost()
    with _counted(cost):
        search()
    return cost


def report_searches(count: int = 100) -> bool:
    """Print what each kind of search takes beside the target; whether all hold."""
    from methods.terminal import table

    rows, hold = [], True
    for name, search in kinds_of_search().items():
        taken = []
        for _ in range(count):
            began = time.process_time()
            search()
            taken.append((time.process_time() - began) * 1000)
        total = count_search(search)
        p99 = statistics.quantiles(taken, n=100)[98]
        hold = hold and p99 <= SEARCH_MS
        figures = (statistics.median(taken), p99, SEARCH_MS)
        counts = map(str, (total.queries, total.rows, total.steps))
        said = "" if p99 <= SEARCH_MS else "missed"
        rows.append((name, *(f"{one:.1f}" for one in figures), *counts, said))
    heads = ("search", "p50 ms", "p99 ms", "≤", "queries", "rows", "steps/1000", "")
    print(table(heads, rows, heads[1:-1]))
    return hold


if __name__ == "__main__":
    sys.exit(main())
