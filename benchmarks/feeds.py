"""How long a feed takes: unchanged (304), in full, and written.

    python benchmarks/feeds.py [--requests 500]

Five days of 300 synthetic papers and one profile's digests in a SQLite database; requests in this
process through the whole middleware, formats taking turns. Fails over the target.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from datetime import UTC, date, datetime, timedelta
from itertools import islice
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.empty_site import empty_site

TARGET = 0.001  # seconds, p50 of an unchanged feed
DAYS = [date(2026, 3, 2) + timedelta(days=number) for number in range(5)]
PAPERS_A_DAY = 300


def main() -> int:
    """Build, measure, print; the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--requests", type=int, default=500)
    options = parser.parse_args()
    with empty_site():
        build()
        return measure(options.requests)


def build() -> None:
    """Five days of papers with their digests."""
    from benchmarks.scoring import papers, vocabulary
    from webapp.digests import build as digests
    from webapp.papers.models import Announcement, Listing, Paper

    made = papers(vocabulary(), seed=5)
    for day in DAYS:
        at = datetime(day.year, day.month, day.day, 5, tzinfo=UTC)
        listing = Listing.objects.create(
            category="cs.CL",
            date=day,
            state=Listing.State.COMPLETE,
            source=Listing.Source.RSS,
            polled_at=at,
            changed_at=at,
        )
        stored = Paper.objects.bulk_create(
            Paper(
                arxiv_id=f"{day:%y%m}.{day.day:02d}{number:03d}",
                title=paper.title,
                abstract=paper.abstract,
                title_html=paper.title,
                abstract_html=paper.abstract,
                authors=[{"name": f"A. Author{n}", "affiliation": ""} for n in range(5)],
                primary_category="cs.CL",
                categories=["cs.CL", "cs.LG"],
            )
            for number, paper in enumerate(islice(made, PAPERS_A_DAY))
        )
        Announcement.objects.bulk_create(
            Announcement(listing=listing, paper=paper, type="new", version=1) for paper in stored
        )
    digests.build(DAYS)


def measure(count: int) -> int:
    """Ask `count` times for each; 1 over the target, else 0."""
    from django.core.handlers.base import BaseHandler
    from django.http.response import HttpResponseBase
    from django.test import RequestFactory

    handler = BaseHandler()
    handler.load_middleware()
    requests = RequestFactory(SERVER_NAME="localhost")

    def get(address: str, headers: dict[str, str]) -> HttpResponseBase:
        return handler.get_response(requests.get(address, headers=headers))

    gzip = {"accept-encoding": "gzip"}
    feeds = [f"/digest.{one}" for one in ("rss", "atom", "json")] + ["/category/cs.CL.rss"]
    tags = {feed: get(feed, gzip)["ETag"] for feed in feeds}
    unchanged: dict[str, list[float]] = {feed: [] for feed in feeds}
    whole: dict[str, list[float]] = {feed: [] for feed in feeds}
    sizes = {feed: len(get(feed, gzip).content) for feed in feeds}
    for number in range(count):
        for feed in feeds:
            began = time.process_time()
            response = get(feed, gzip | {"if-none-match": tags[feed]})
            unchanged[feed].append(time.process_time() - began)
            assert response.status_code == 304
            if number % 20 == 0:
                began = time.process_time()
                assert get(feed, gzip).status_code == 200
                whole[feed].append(time.process_time() - began)
    print("milliseconds of one core's time, from request to response; KiB compressed")
    print(f"{'':22}{'304 p50':>9}{'304 p99':>9}{'200 p50':>9}{'KiB':>7}")
    for feed in feeds:
        p99 = statistics.quantiles(unchanged[feed], n=100)[98]
        cells = (statistics.median(unchanged[feed]), p99, statistics.median(whole[feed]))
        print(
            f"{feed:22}" + "".join(f"{seconds * 1000:9.2f}" for seconds in cells)
            + f"{sizes[feed] / 1024:7.0f}"
        )  # fmt: skip
    print(f"target: 304 p50 {TARGET * 1000:.0f} ms")
    return int(any(statistics.median(taken) > TARGET for taken in unchanged.values()))


if __name__ == "__main__":
    sys.exit(main())
