"""What a reader is shown on real days: every figure is read from pages, as they read them.

    python -m benchmarks.reader_days --papers PAPERS.jsonl [--days 5] [--likes 3 5 7 10 20]

PAPERS.jsonl holds lines {"id", "title", "abstract", "categories", "day"} of real papers; fetch them
yourself, for instance from a public mirror of arXiv's metadata. A topic is a group of arXiv
categories other than the largest (topics.toml), so that what is on topic is not decided by the
words that rank. A reader of it names papers of the days before in First steps, and reads the pages
of the last days. Prints, each with a 95 % interval (bootstrap over topics):

    shown on topic   papers on topic among the first ten of each page, of as many as could be there
    kept             papers that a profile shows by its keywords alone, and with likes, too
    empty pages      days with announcements whose page shows no paper
"""

import json
import logging
import os
import random
import re
import sys
import tomllib
from collections import defaultdict
from collections.abc import Iterator
from datetime import date
from pathlib import Path
from typing import Any

from benchmarks.figures import Figure, arguments, report
from benchmarks.large_site import empty_site
from benchmarks.learned_ranking import interval

PAST = 20  # days before, from which liked papers are drawn
TOP = 10
TOPICS = tomllib.loads(Path(__file__).with_name("topics.toml").read_text("utf-8"))
Row = dict[str, Any]


def main() -> int:
    """Store the days, read, print; 1 if a target is missed."""
    parser = arguments(__doc__, days=5)
    parser.add_argument("--papers", type=Path, required=True)
    parser.add_argument("--likes", type=int, nargs="+", default=[3, 5, 7, 10, 20])
    options = parser.parse_args()
    os.environ["ASSAY_HOSTS"] = "testserver"
    with empty_site():
        logging.disable(logging.WARNING)  # of the broker, which no worker needs here
        from django.core.management import call_command

        call_command("collectstatic", interactive=False, verbosity=0)
        days = store(options.papers, PAST + options.days)
        read = sorted(days)[-options.days :]
        return report(figures(days, read, options.likes))


def store(source: Path, count: int) -> dict[date, list[Row]]:
    """Keep the last `count` days of a file as announced; their papers by day."""
    from django.utils import timezone

    from webapp.papers.models import Announcement, Listing, Paper

    days = defaultdict(list)
    with source.open() as lines:
        for row in map(json.loads, lines):
            days[date.fromisoformat(row["day"])].append(row)
    for day in sorted(days)[:-count]:
        del days[day]
    for day in sorted(days):
        listing = Listing.objects.create(
            date=day, category="cs.LG", state="complete", source="rss", polled_at=timezone.now(),
            changed_at=timezone.now(),
        )  # fmt: skip
        papers = Paper.objects.bulk_create(
            Paper(
                arxiv_id=row["id"], title=row["title"], abstract=row["abstract"],
                title_html="", abstract_html="", authors=[], categories=row["categories"],
                primary_category=row["categories"][0], announced_on=day,
            )
            for row in days[day]
        )  # fmt: skip
        Announcement.objects.bulk_create(
            Announcement(listing=listing, paper=paper, type="new", version=1) for paper in papers
        )
    return dict(days)


def figures(days: dict[date, list[Row]], read: list[date], likes: list[int]) -> Iterator[Figure]:
    """Every figure, by number of likes."""
    past = [row for day in days if day not in read for row in days[day]]
    for count in likes:
        shown, kept, empty, found, possible = [], [], 0, 0, 0
        for topic, meant in TOPICS.items():
            wanted = set(meant["categories"])
            mine = [row["id"] for row in past if wanted & set(row["categories"])]
            if len(mine) < count:
                continue
            liked = random.Random(f"{topic} {count}").sample(mine, count)
            reader = Reader(f"{topic}-{count}")
            by_rules = reader.makes([], meant["keywords"])  # nothing is saved yet
            by_likes = reader.makes(liked, [])
            by_both = reader.makes(liked, meant["keywords"])
            shares, both = [], []
            for day in read:
                on_topic = {row["id"] for row in days[day] if wanted & set(row["categories"])}
                page = reader.reads(by_likes, day)
                empty += not page
                hits = len(on_topic.intersection(page[:TOP]))
                found, possible = found + hits, possible + min(TOP, len(on_topic))
                if on_topic:
                    shares.append(hits / min(TOP, len(on_topic)))
                alone = set(reader.reads(by_rules, day))
                if alone:
                    both.append(len(alone & set(reader.reads(by_both, day))) / len(alone))
            shown.append(shares)
            kept.append(both)
        name = f"{count:2d} likes"
        mean, low, high = interval([[100 * share for share in one] for one in shown if one])
        beside = f"{low:.0f} to {high:.0f}; {found} of {possible} in {len(shown)} topics"
        yield Figure(f"{name}: shown on topic", mean, "%", beside=beside)
        yield Figure(f"{name}: kept", min(min(o) for o in kept if o) * 100, "% at least", 100, True)
        yield Figure(f"{name}: empty pages", empty, "", 0)


class Reader:
    """A reader with a browser of their own."""

    def __init__(self, name: str) -> None:
        from django.contrib.auth.models import User
        from django.test import Client

        self.client = Client()
        self.client.force_login(User.objects.create_user(name))

    def makes(self, liked: list[str], keywords: list[str]) -> str:
        """Create a profile in First steps; the address of its page."""
        asked = {"categories": "cs.LG", "keywords": "\n".join(keywords), "liked": " ".join(liked)}
        return str(self.client.post("/first-steps/", asked)["Location"])

    def reads(self, address: str, day: date) -> list[str]:
        """The identifiers on the page of a day, in order."""
        page = self.client.get(f"{address}{day}/").content.decode()
        return re.findall(r'id="p-([\d.]+)"', page)


if __name__ == "__main__":
    sys.exit(main())
