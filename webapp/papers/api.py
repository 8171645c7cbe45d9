"""arXiv's API: what the feeds missed, and what they lack.

Its answers are pages of Atom (https://info.arxiv.org/help/api/user-manual.html), asked for through
`fetch.get`, which also refuses to believe an empty or cut-off page before it was asked for again.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, date, datetime, timedelta
from typing import Any
from urllib.parse import urlencode

from django.conf import settings
from lxml import etree

from webapp.papers import fetch
from webapp.papers.days import batch_day_of, submission_window
from webapp.papers.entries import (
    Author,
    BadEntryError,
    Batch,
    Entry,
    Problem,
    category_names,
    one_a_paper,
    one_line,
    paragraph,
)
from webapp.papers.identifiers import parse_identifier
from webapp.papers.models import AnnounceType

PAGE = 2000  # results; arXiv's limit
MOST = 30_000  # results of one query; arXiv answers 400 beyond
IDS = 200  # identifiers of one query, so that the address stays short
NOTE = "from the API, by submission: replacements and late announcements are not in it"
_TOTAL = re.compile(rb"<(?:\w+:)?totalResults[^>]*>\s*(\d+)\s*<")
_NAMES = {"atom": "http://www.w3.org/2005/Atom", "arxiv": "http://arxiv.org/schemas/atom"}


def submitted(category: str, first: date, last: date) -> dict[date, Batch]:
    """The papers of `category` in the batches of `first` to `last`, by the day of their batch.

    The API knows when version 1 was submitted, not when a paper was announced: a day taken from
    it holds the papers submitted within its window, as new in their primary category and as
    cross-lists elsewhere; replacements, later cross-lists and papers that moderators held back
    are not in it. Raises FetchError.
    """
    since, until = submission_window(first)[0], submission_window(last)[1] - timedelta(minutes=1)
    window = f"submittedDate:[{since:%Y%m%d%H%M} TO {until:%Y%m%d%H%M}]"
    query = {"search_query": f"cat:{category} AND {window}"}
    query |= {"sortBy": "submittedDate", "sortOrder": "ascending"}
    entries: dict[date, list[Entry]] = defaultdict(list)
    problems: dict[date, list[Problem]] = defaultdict(list)
    for found in _results(query, category):
        if isinstance(found, Problem):
            problems[last].append(found)
        else:
            # What the API gives beyond the days asked for counts to the nearest of them.
            day = batch_day_of(found.submitted_at) if found.submitted_at else first
            entries[min(max(day, first), last)].append(found)
    return {
        day: Batch(category, day, one_a_paper(entries[day]), tuple(problems[day]), NOTE)
        for day in entries.keys() | problems.keys()
    }


def lookup(identifiers: Sequence[str]) -> tuple[Entry, ...]:
    """What the API knows of papers, by identifier; those it does not know are not in the answer.

    Raises FetchError.
    """
    entries: list[Entry] = []
    for start in range(0, len(identifiers), IDS):
        found = _results({"id_list": ",".join(identifiers[start : start + IDS])})
        entries += [one for one in found if isinstance(one, Entry)]
    return one_a_paper(entries)


def _results(query: Mapping[str, str], category: str = "") -> Iterator[Entry | Problem]:
    """What a query finds, page by page; an entry that cannot be read is a problem."""
    start, total = 0, 1
    while start < total:
        page, total = _page(query, start)
        items = page.findall("atom:entry", _NAMES)
        for item in items:
            try:
                yield _entry(item, category)
            except (BadEntryError, ValueError) as error:
                yield Problem(_line(item, "atom:id")[:120] or "API", str(error))
        start += len(items) or total  # no entries: the query finds nothing


def _page(query: Mapping[str, str], start: int) -> tuple[Any, int]:
    """The page of a query's results from `start` on, and how many there are in all."""
    totals: list[int] = []

    def check(body: bytes) -> None:
        totals.append(_total(body))
        if totals[-1] > MOST:
            raise fetch.RefusedError(f"the API finds {totals[-1]} papers, more than it can list")
        if start < totals[-1] and b"<entry" not in body:
            raise fetch.RefusedError(f"the API says {totals[-1]} papers and sends an empty page")
        # An empty first answer is now and then a mistake: once more before it is believed.
        if totals[-1] == 0 and totals.count(0) == 1:
            raise fetch.RefusedError("the API sends an empty page")

    asked = urlencode({**query, "start": start, "max_results": PAGE})
    answer = fetch.get(f"{settings.ARXIV_API_URL}?{asked}", check=check)
    parser = etree.XMLParser(resolve_entities=False, no_network=True, recover=True)
    root = None
    with suppress(etree.XMLSyntaxError):
        root = etree.fromstring(answer.body, parser)
    if root is None:
        raise fetch.RefusedError("the API's answer cannot be read: it is no XML")
    return root, totals[-1]


def _entry(item: Any, category: str) -> Entry:
    identifier, version = parse_identifier(_line(item, "atom:id"))
    paths = ("arxiv:primary_category", "atom:category")
    terms = [one.get("term", "") for path in paths for one in item.iterfind(path, _NAMES)]
    categories = category_names(terms)
    is_new = not category or not categories or categories[0] == category
    return Entry(
        arxiv_id=identifier,
        version=version or 1,
        announced_version=1,
        type=AnnounceType.NEW if is_new else AnnounceType.CROSS,
        title=_line(item, "atom:title"),
        abstract=paragraph(_unwrapped(item.findtext("atom:summary", "", _NAMES))),
        authors=tuple(filter(None, map(_author, item.iterfind("atom:author", _NAMES)))),
        categories=categories or ((category,) if category else ()),
        doi=_line(item, "arxiv:doi")[:255],
        journal_ref=_line(item, "arxiv:journal_ref")[:1000],
        comment=_line(item, "arxiv:comment")[:2000],
        submitted_at=_moment(item, "atom:published"),
        updated_at=_moment(item, "atom:updated"),
    )


def _author(item: Any) -> Author | None:
    name = _line(item, "atom:name")
    places = [one.text or "" for one in item.iterfind("arxiv:affiliation", _NAMES)]
    return Author(name, one_line(", ".join(places))) if name else None


def _line(item: Any, path: str) -> str:
    return one_line(item.findtext(path, "", _NAMES))


def _unwrapped(summary: str) -> str:
    """The abstract without the line breaks at 80 columns; blank and indented lines stay."""
    return re.sub(r"(?<=\S)\n(?=\S)", " ", summary.strip())


def _moment(item: Any, path: str) -> datetime | None:
    moment = datetime.fromisoformat(_line(item, path))
    moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return moment.astimezone(UTC) if moment.year >= 1990 else None


def _total(body: bytes) -> int:
    match = _TOTAL.search(body)
    if match is None:
        raise fetch.RefusedError("the API's answer is no list of papers")
    if not body.rstrip().endswith(b"</feed>"):
        raise fetch.OutOfReachError("the API's answer is cut off before its end")
    return int(match[1])
