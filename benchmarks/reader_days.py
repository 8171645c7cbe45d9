"""Papers that a reader is shown on real days: every figure is read over HTTP, as by a browser.

    python -m benchmarks.reader_days --papers PAPERS.jsonl [--days 5] [--likes 3 5 7 10 20]
                                     [--wanted WANTED.txt] [--topics FILE.toml]

PAPERS.jsonl holds lines {"id", "title", "abstract", "categories", "day"} of real papers; fetch them
yourself, for instance from a public mirror of arXiv's metadata. The last days are announced on a
new site, which a server in this process gives at a socket. A reader of each narrow topic
(reader_topics.toml, by which closeness was chosen, or unseen_topics.toml; a rule says which papers
are on it) names papers of the days before in
First steps, and reads the pages of the last days. Prints, with 95 % intervals (bootstrap over
topics):

    shown on topic   papers on topic among the first ten of each page, of as many as could be there
    rows             papers that are listed a day (those that are folded are not), how many of them
                     are on topic, and how many of all papers on topic are listed
    nothing          days without a paper on topic, on how many of them nothing is listed
    kept             papers that a profile shows by its keywords alone, and with likes, too
    a preview        of the last days by keywords and likes, by the clock: the median of all topics
    default list     rows of the site's own list, and of those that are folded; with --wanted (lines
                     of an identifier and a grade above 0) how many of them are wanted
    questions        as `benchmarks.searches questions`, those whose paper is in the file
"""

import argparse
import json
import logging
import os
import random
import re
import statistics
import sys
import time
import tomllib
from collections import Counter, defaultdict
from collections.abc import Iterator
from datetime import date
from pathlib import Path
from typing import Any

import httpx2

from benchmarks import searches
from benchmarks.figures import Figure, arguments, report
from benchmarks.large_site import empty_site

PAST = 20  # days before, from which liked papers are drawn
TOP = 10
WEEK = 5  # days of a preview
SHARE = 100 * 80 / 93  # of the papers on topic that could be among the first ten, at five likes
TOPICS = Path(__file__).with_name("reader_topics.toml")
Row = dict[str, Any]
Days = dict[date, list[Row]]


def main() -> int:
    """Store the days, read, print; 1 if a target is missed."""
    parser = arguments(__doc__, days=5)
    parser.add_argument("--papers", type=Path, required=True)
    parser.add_argument("--likes", type=int, nargs="+", default=[3, 5, 7, 10, 20])
    parser.add_argument("--topics", type=Path, default=TOPICS)
    parser.add_argument("--wanted", type=Path, help="identifiers with grades, read by eye")
    options = parser.parse_args()
    graded = options.wanted.read_text().split() if options.wanted else []
    wanted = {name for name, grade in zip(graded[::2], graded[1::2], strict=True) if int(grade)}
    os.environ["ASSAY_HOSTS"] = "127.0.0.1"
    with empty_site():
        logging.disable(logging.WARNING)  # of the broker, which no worker needs here
        days = store(options.papers, PAST + options.days)
        read = sorted(days)[-options.days :]
        with searches.served() as address:
            return report(
                [*default_list(address, read, wanted), *topics(address, days, read, options)]
            )


def store(source: Path, count: int) -> Days:
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


def default_list(address: str, read: list[date], wanted: set[str]) -> Iterator[Figure]:
    """The site's own list, from the API."""
    from webapp.digests.build import build

    build(read)
    rows: Counter[str] = Counter()
    hits: Counter[str] = Counter()
    for day in read:
        answer = httpx2.get(f"{address}/api/v1/digests/site", params={"date": str(day)}, timeout=60)
        answer.raise_for_status()
        entries = answer.json()["entries"]
        listed = [entry for entry in entries if not entry["also_mentioned"]]
        folded = [entry for entry in entries if entry["also_mentioned"]]
        kinds = {"whole list": listed, "top ten": listed[:TOP], "folded": folded}
        for kind, shown in kinds.items():
            rows[kind] += len(shown)
            hits[kind] += sum(entry["paper"]["id"] in wanted for entry in shown)
    for kind, count in rows.items():
        of = f"{hits[kind]} wanted" if wanted else ""
        yield Figure(f"default list: {kind}", count, "rows", beside=of)


def topics(
    address: str, days: Days, read: list[date], options: argparse.Namespace
) -> Iterator[Figure]:
    """Yield what readers of narrow topics are shown, by number of likes."""
    meant_by_topic = tomllib.loads(options.topics.read_text("utf-8"))
    past = [row for day in days if day not in read for row in days[day]]
    previews: list[float] = []
    for count in options.likes:
        shown, kept, found, possible = [], [], 0, 0
        rows, on_topic_rows, on_topic_papers, bare, silent = 0, 0, 0, 0, 0
        for topic, meant in meant_by_topic.items():
            mine = [row["id"] for row in past if on_topic(row, meant["phrases"])]
            if len(mine) < count:
                continue
            liked = random.Random(f"{topic} {count}").sample(mine, count)
            reader = Reader(address, f"{topic}-{count}")
            by_rules = reader.makes([], meant["keywords"])  # nothing is saved yet
            by_likes = reader.makes(liked, [])
            by_both = reader.makes(liked, meant["keywords"])
            previews.append(reader.waited)
            shares, both = [], []
            for day in read:
                on = {row["id"] for row in days[day] if on_topic(row, meant["phrases"])}
                page = reader.reads(by_likes, day)
                rows, on_topic_papers = rows + len(page), on_topic_papers + len(on)
                on_topic_rows += len(on.intersection(page))
                bare, silent = bare + (not on), silent + (not on and not page)
                hits = len(on.intersection(page[:TOP]))
                found, possible = found + hits, possible + min(TOP, len(on))
                if on:
                    shares.append(100 * hits / min(TOP, len(on)))
                if alone := set(reader.reads(by_rules, day)):
                    both.append(len(alone & set(reader.reads(by_both, day))) / len(alone))
            shown.append(shares)
            kept += both
        name = f"{count:2d} likes"
        mean, low, high = interval([shares for shares in shown if shares])
        share = 100 * found / max(possible, 1)
        beside = (
            f"{found} of {possible} in {len(shown)} topics; mean of topics {mean:.0f} "
            f"({low:.0f} to {high:.0f})"
        )
        target = SHARE if count == 5 else None
        yield Figure(f"{name}: shown on topic", share, "%", target, True, beside)
        yield Figure(f"{name}: kept", 100 * min(kept), "% at least", 100, True)
        pages = max(1, len(shown) * len(read))
        listed = f"{on_topic_rows} of {rows} rows; {rows / pages:.1f} rows a day"
        yield Figure(
            f"{name}: rows on topic", 100 * on_topic_rows / max(rows, 1), "%", beside=listed
        )
        listed = f"{on_topic_rows} of {on_topic_papers} papers on topic"
        yield Figure(
            f"{name}: on topic, listed", 100 * on_topic_rows / max(on_topic_papers, 1), "%",
            beside=listed,
        )  # fmt: skip
        yield Figure(f"{name}: nothing", silent, "days", beside=f"of {bare} without such a paper")
    papers = sum(len(days[day]) for day in sorted(days)[-WEEK:])
    yield Figure("a preview", statistics.median(previews), "s", 2.0, beside=f"{papers:,} papers")


def asked(address: str, days: Days) -> Iterator[Figure]:
    """The questions of which the site has the paper."""
    stored = {row["id"] for day in days.values() for row in day}
    answerable = {name: q for name, q in searches.questions("second").items() if name in stored}
    if answerable:
        yield searches.figure(address, answerable)


def interval(by_topic: list[list[float]]) -> tuple[float, float, float]:
    """The mean over topics with its 95 % bootstrap interval, 2,000 draws of topics."""
    means = [statistics.fmean(values) for values in by_topic]
    draws = random.Random(0)
    sampled = sorted(statistics.fmean(draws.choices(means, k=len(means))) for _ in range(2000))
    return statistics.fmean(means), sampled[49], sampled[1949]


def on_topic(row: Row, phrases: list[str]) -> bool:
    """Return whether a phrase is in the title, or twice in the abstract."""
    expression = re.compile("|".join(phrases), re.IGNORECASE)
    return bool(expression.search(row["title"])) or len(expression.findall(row["abstract"])) > 1


class Reader:
    """A reader with a browser of their own, signed in."""

    def __init__(self, address: str, name: str) -> None:
        from django.conf import settings
        from django.contrib.auth.models import User
        from django.test import Client

        signing = Client()
        signing.force_login(User.objects.create_user(name))
        session = signing.cookies[settings.SESSION_COOKIE_NAME].value
        cookies = {settings.SESSION_COOKIE_NAME: session}
        self.client = httpx2.Client(base_url=address, cookies=cookies, timeout=120)

    def makes(self, liked: list[str], keywords: list[str]) -> str:
        """Create a profile in First steps; the address of its page."""
        form = self.client.get("/first-steps/").text
        (token,) = set(re.findall(r'name="csrfmiddlewaretoken" value="(\w+)"', form)) or {""}
        asked = {"categories": "cs.LG", "interests": "\n".join([*keywords, *liked])}
        asked["csrfmiddlewaretoken"] = token
        began = time.perf_counter()
        self.client.post("/first-steps/", data=asked | {"preview": "1"})
        self.waited = time.perf_counter() - began  # for the preview
        answer = self.client.post("/first-steps/", data=asked)
        return str(answer.headers["Location"])

    def reads(self, address: str, day: date) -> list[str]:
        """The identifiers in the list of a day, in order, without those that stand folded."""
        page = self.client.get(f"{address}{day}/")
        page.raise_for_status()
        listed = page.text.partition('class="folded mentioned"')[0]
        return re.findall(r'id="p-([\d.]+)"', listed)


if __name__ == "__main__":
    sys.exit(main())
