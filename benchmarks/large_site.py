"""Builds a large site to measure: papers of shuffled sentences, digests of some days, many runs."""

import json
import os
import random
import re
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, date, datetime, timedelta
from importlib import import_module
from itertools import islice
from pathlib import Path
from typing import Any

LAST_DAY = date(2026, 6, 12)
CATEGORIES = ("cs.AI", "cs.CL", "cs.DC", "cs.LG")
A_DAY = 400  # papers, on a site of many
SHOWN_DAYS = 5  # with listings and digests
LOG_PIECES = 200  # of the run that is under way
COPIED = ("method", "benchmark", "version", "device", "params", "environment", "result")


@contextmanager
def empty_site(keep: Path | None = None) -> Iterator[None]:
    """Set up Django with a migrated SQLite database, in `keep` or in a temporary folder."""
    with tempfile.TemporaryDirectory() as folder:
        data = keep or Path(folder)
        (data / "static").mkdir(parents=True, exist_ok=True)
        os.environ |= {"ASSAY_DATA": str(data), "DJANGO_SETTINGS_MODULE": "webapp.settings"}
        import django

        django.setup()
        from django.conf import settings
        from django.core.management import call_command

        # No file is collected: pages name them as they are.
        plain = "django.contrib.staticfiles.storage.StaticFilesStorage"
        settings.STORAGES["staticfiles"]["BACKEND"] = plain
        call_command("migrate", verbosity=0)
        yield


def build(papers: int, runs: int, source: Path | None = None) -> None:
    """Add papers and runs until there are as many, and digests of the last days."""
    from django.core.management import call_command
    from django.db import connection

    from assay_common.terminal import progress_bar
    from webapp.digests.build import build as build_digests
    from webapp.papers.models import Paper
    from webapp.runs.models import Run

    with progress_bar() as bar:
        task = bar.add_task("papers", total=papers, completed=(there := Paper.objects.count()))
        made = islice(_papers(papers, texts(source)), there, papers)
        with _indexed_afterwards(begun=there < papers):
            while batch := list(islice(made, 2_000)):
                Paper.objects.bulk_create(batch, batch_size=500)
                bar.advance(task, len(batch))
        if not Run.objects.filter(imported=True).exists():
            call_command("import_results", verbosity=0, stdout=sys.stderr)
        task = bar.add_task("runs", total=runs, completed=(there := Run.objects.count()))
        for first in range(there, runs, 1_000):
            _add_runs(first, min(runs - first, 1_000))
            bar.advance(task, min(runs - first, 1_000))
    days = [*(LAST_DAY - timedelta(back) for back in range(SHOWN_DAYS)), old_day()]
    for day in days:
        for category in CATEGORIES:
            _announce(day, category)
    build_digests(days)
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE")


@contextmanager
def _indexed_afterwards(*, begun: bool) -> Iterator[None]:
    """Drop the search index while papers are added, and then build it, which is much faster.

    It is also built if it is missing because an earlier call was interrupted.
    """
    from django.db import DatabaseError, connection, transaction

    from webapp.papers.search import search

    index = import_module("webapp.papers.migrations.0001_squashed_0012_fenced_lease")
    try:
        with transaction.atomic():
            search("model")
    except DatabaseError:
        begun = True
    if begun:
        index.drop(None, connection.schema_editor())
    yield
    if begun:
        with transaction.atomic():
            index.create(None, connection.schema_editor())


def _announce(day: date, category: str) -> None:
    """Create a complete listing of the day's papers, unless there is one."""
    from webapp.papers.models import Announcement, Listing, Paper

    at = datetime(day.year, day.month, day.day, tzinfo=UTC)
    fields = {"state": "complete", "source": "rss", "polled_at": at, "changed_at": at}
    listing, new = Listing.objects.get_or_create(category=category, date=day, defaults=fields)
    if new:
        papers = Paper.objects.filter(announced_on=day, primary_category=category)
        Announcement.objects.bulk_create(
            Announcement(listing=listing, paper=paper, type="new", version=1) for paper in papers
        )


def old_day() -> date:
    """A day of a year ago, or the first there is."""
    from webapp.papers.models import Paper

    first = Paper.objects.earliest("announced_on").announced_on
    return max(LAST_DAY - timedelta(365), first or date.min)


def texts(source: Path | None) -> list[tuple[str, str]]:
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
    """`count` papers, always the same; one in six belongs to an earlier day."""
    from webapp.papers.models import Paper
    from webapp.ui.markup import render

    chance = random.Random(17)
    sentences = [
        sentence for _, text in texts for sentence in re.split(r"(?<=[.?!])\s+", text) if sentence
    ]
    words = [word for title, _ in texts for word in title.split()]
    a_day = min(A_DAY, max(count // 400, 40))
    days = -(-count // a_day)
    for number in range(count):
        place = number if number % 6 else chance.randrange(number + 1)
        title = " ".join(chance.sample(words, 9))
        abstract = " ".join(chance.sample(sentences, 7))
        categories = chance.sample(CATEGORIES, chance.choice((1, 1, 2)))
        day = LAST_DAY - timedelta(days=days - 1 - place // a_day)
        shown = (LAST_DAY - day).days in {*range(SHOWN_DAYS), min(365, days - 1)}
        yield Paper(
            arxiv_id=_identifier(number),
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


def _identifier(number: int) -> str:
    """Return a valid arXiv identifier, later for a larger number."""
    months, number = divmod(number, 100_000)
    year, month = divmod(months, 12)
    return f"{20 + year:02d}{month + 1:02d}.{number:05d}"


def _add_runs(first: int, count: int) -> None:
    """Add copies of published runs, each with the first of its series."""
    from webapp.runs.models import Run, Series

    models = list(Run.objects.filter(imported=True).prefetch_related("series")[:20])
    runs, series = [], []
    for number in range(first, first + count):
        model = models[number % len(models)]
        at = datetime(2026, 1, 1, tzinfo=UTC) + timedelta(minutes=number)
        runs.append(_like(model, f"token-{number}", at, state="succeeded", finished_at=at))
        chosen = model.series.all()[:1]
        series += [Series(run=runs[-1], name=row.name, data=row.data) for row in chosen]
    Run.objects.bulk_create(runs, batch_size=200)
    Series.objects.bulk_create(series, batch_size=200)


def _like(model: Any, token: str, at: datetime, **fields: Any) -> Any:
    """An unsaved run of the same benchmark that started `at`."""
    from webapp.runs.models import Run

    copied = {name: getattr(model, name) for name in COPIED}
    return Run(**copied, token=token, limit_seconds=300, queued_at=at, started_at=at, **fields)


def open_run() -> Any:
    """A run in progress, with a log."""
    from webapp.runs.models import Event, Run

    at = datetime(2026, 6, 12, tzinfo=UTC)
    if not (run := Run.objects.filter(token="under-way").first()):
        progress = {"fraction": 0.4, "message": "block 3", "elapsed": 9.0, "left": 12.0}
        fields = {"state": "running", "attempt": 1, "progress": progress, "progress_seq": 7}
        run = _like(Run.objects.filter(imported=True)[0], "under-way", at, **fields)
        run.save()
        piece = {"size": 80, "text": "x" * 79 + "\n"}
        same: dict[str, Any] = {"token": run.token, "kind": "log", "recorded_at": at}
        Event.objects.bulk_create(
            Event(run=run, seq=seq, body={"offset": 80 * seq, **piece}, **same)
            for seq in range(LOG_PIECES)
        )
    return run
