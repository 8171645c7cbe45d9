"""How long a reader waits for a search.

    python benchmarks/search.py [--papers 1000000] [--searches 400] [--keep DIR]

Builds a database of synthetic papers (words drawn by Zipf's law, so that there are common, usual
and rare ones, as in real abstracts), then asks in this process what `webapp.papers.search` gives a
page: one to three words, phrases, beginnings, authors, categories and periods, the worst of them
apart. Fails over the target. `--keep` keeps the database, and uses it again if it is there.
"""

from __future__ import annotations

import argparse
import os
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from datetime import date, timedelta
from functools import cache
from itertools import accumulate, islice
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

TARGET = 0.150  # seconds, p99
WORDS = 50_000
CATEGORIES = ("cs.AI", "cs.CL", "cs.CV", "cs.DC", "cs.LG", "hep-th", "math.CO", "quant-ph")
FIRST_DAY = date(2010, 1, 4)


def main() -> int:
    """Build, measure, print; the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--papers", type=int, default=1_000_000)
    parser.add_argument("--searches", type=int, default=400)
    parser.add_argument("--keep", type=Path)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        data = options.keep or Path(folder)
        os.environ["ASSAY_DATA"] = str(data)
        os.environ["DJANGO_SETTINGS_MODULE"] = "webapp.settings"
        import django

        django.setup()
        build(options.papers)
        return measure(options.searches)


def build(count: int) -> None:
    """Migrate, and add papers until there are `count`."""
    from django.core.management import call_command

    from webapp.papers.models import Paper

    call_command("migrate", verbosity=0)
    there = Paper.objects.count()
    began = time.perf_counter()
    papers = islice(synthetic(), there, count)
    while batch := list(islice(papers, 5_000)):
        Paper.objects.bulk_create(batch, batch_size=500)
        there += len(batch)
        if sys.stderr.isatty():
            print(f"\r{there:,} of {count:,} papers", end="", file=sys.stderr, flush=True)
    print(f"\r{there:,} papers, {time.perf_counter() - began:.0f} s to add", file=sys.stderr)


def synthetic() -> Iterator[object]:
    """Papers without end, the same ones every time."""
    from webapp.papers.models import Paper

    chance = random.Random(14)
    weights = list(accumulate(1 / (rank + 2) for rank in range(WORDS)))
    names = [word(rank) for rank in range(WORDS)]
    number = 0
    while True:
        text = chance.choices(names, cum_weights=weights, k=158)
        categories = chance.sample(CATEGORIES, chance.choice((1, 1, 2, 3)))
        yield Paper(
            arxiv_id=f"{number // 100_000:04d}.{number % 100_000:05d}",
            title=" ".join(text[:8]),
            abstract=" ".join(text[8:]),
            title_html="",
            abstract_html="",
            authors=[{"name": f"{chance.choice(names)} {text[n]}"} for n in range(3)],
            primary_category=categories[0],
            categories=categories,
            announced_on=FIRST_DAY + timedelta(days=number // 200),
        )
        number += 1


@cache
def word(rank: int) -> str:
    """The word of a rank: syllables in base 50."""
    syllables = [a + b for a in "bdfgklmnrs" for b in "aeiou"]
    text = syllables[rank % 50]
    while rank := rank // 50:
        text += syllables[rank % 50]
    return text + "n"


def measure(count: int) -> int:
    """Ask each kind of question `count` times, cold words first; 1 over the target, else 0."""
    from django.db import connection

    from webapp.papers.models import Paper
    from webapp.papers.search import search

    chance = random.Random(3)
    recent = Paper.objects.order_by("-announced_on").values_list("announced_on", flat=True)[0]
    week = recent - timedelta(days=7)

    def usual() -> str:
        return word(int(chance.paretovariate(0.4)) % WORDS)

    def common() -> str:
        return word(chance.randrange(20))

    kinds: dict[str, Callable[[], object]] = {
        "one word": lambda: search(usual()),
        "two words": lambda: search(f"{usual()} {usual()}"),
        "three common words": lambda: search(f"{common()} {common()} {common()}"),
        "phrase of common words": lambda: search(f'"{common()} {common()}"'),
        "beginning": lambda: search(f"{usual()[:3]}*"),
        "author and word": lambda: search(f"au:{usual()} {usual()}"),
        "excluding a common word": lambda: search(f"{usual()} -{common()}"),
        "word in a category": lambda: search(usual(), "hep-th"),
        "word of the last week": lambda: search(usual(), since=week),
        "page 10 of a common word": lambda: search(common(), page=10),
    }
    print(f"{Paper.objects.count():,} papers, {connection.vendor}, milliseconds")
    print(f"{'':26}{'p50':>8}{'p99':>8}{'max':>8}")
    everything: list[float] = []
    for name, ask in kinds.items():
        times = []
        for _ in range(count):
            began = time.perf_counter()
            ask()
            times.append(time.perf_counter() - began)
        everything += times
        show(name, times)
    p99 = show("all", everything)
    print(f"target: p99 {TARGET * 1000:.0f} ms")
    return int(p99 > TARGET)


def show(name: str, times: list[float]) -> float:
    """Print a line of the table; the 99th percentile."""
    p99 = statistics.quantiles(times, n=100)[98]
    cells = (statistics.median(times), p99, max(times))
    print(f"{name:26}" + "".join(f"{seconds * 1000:8.1f}" for seconds in cells), flush=True)
    return p99


if __name__ == "__main__":
    sys.exit(main())
