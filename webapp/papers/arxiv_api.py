"""arXiv's API through the `arxiv` package: what the feeds missed, and what they lack.

The package builds the queries and parses the entries. It gets one entry at a time, since an entry
that it cannot parse would cost the rest of the page. It sends no requests: its client has no
timeout, no back-off and ignores Retry-After. `fetch.get` sends them, and retries a page that is
empty or cut off.
"""

import logging
import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from datetime import UTC, date, datetime, timedelta
from functools import partial

import arxiv
from arxiv import _feed
from django.conf import settings

from assay_common.text import one_line
from webapp.core import sandbox
from webapp.core.sandbox import UnreadableError
from webapp.papers import fetch
from webapp.papers.days import DAY, announcement_day, now, submission_window
from webapp.papers.entries import Author, BadEntry, BadEntryError, Batch, Entry, merged, paragraph
from webapp.papers.formats import one_by_one
from webapp.papers.identifiers import category_names, parse_identifier
from webapp.papers.models import AnnounceType
from webapp.papers.names import unicode_name
from webapp.ui.markup import without_tex

BY_AUTHOR = 100  # papers of one author, the latest
PAGE = 2000  # results; arXiv's limit
MAX_RESULTS = 30_000  # results of one query; arXiv answers 400 beyond
IDS = 200  # identifiers of one query, to keep the URL short
NOTE = "from the API, by submission: replacements and late announcements are not in it"
_TOTAL = re.compile(rb"<(?:\w+:)?totalResults[^>]*>\s*(\d{1,9})\s*<")
_ENTRY = re.compile(rb"<entry[\s>]")

log = logging.getLogger(__name__)


def submitted(category: str, first: date, last: date) -> dict[date, Batch]:
    """The papers of `category` in the batches of `first` to `last`, by the day of their batch.

    The API knows when version 1 was submitted, not when a paper was announced: a day taken from
    it has the papers submitted within its window, as new in their primary category and as
    cross-lists elsewhere. Replacements, later cross-lists and papers held by moderators are
    missing. Entries come in order of submission, so one that cannot be read is a problem of the
    day of the entry before it. Raises FetchError.
    """
    since, until = submission_window(first)[0], submission_window(last)[1] - timedelta(minutes=1)
    query = f"cat:{category} AND submittedDate:[{since:%Y%m%d%H%M} TO {until:%Y%m%d%H%M}]"
    search = arxiv.Search(
        query,
        max_results=MAX_RESULTS,
        sort_by=arxiv.SortCriterion.SubmittedDate,
        sort_order=arxiv.SortOrder.Ascending,
    )
    day = first
    by_day: dict[date, list[Entry | BadEntry]] = defaultdict(list)
    for answer in _answers(search, category):
        if isinstance(answer, Entry) and answer.submitted_at:
            # What the API gives beyond the days asked for counts to the nearest of them.
            day = min(max(announcement_day(answer.submitted_at), first), last)
        by_day[day].append(answer)
    batches = {}
    for day, answers in by_day.items():
        entries = merged([answer for answer in answers if isinstance(answer, Entry)])
        problems = tuple(answer for answer in answers if isinstance(answer, BadEntry))
        batches[day] = Batch(category, day, entries, problems, NOTE)
    return batches


def lookup(identifiers: Sequence[str]) -> tuple[Entry, ...]:
    """The papers with these identifiers, without those that the API does not know or that cannot
    be read. Raises FetchError.
    """
    entries: list[Entry] = []
    for start in range(0, len(identifiers), IDS):
        batch = list(identifiers[start : start + IDS])
        for answer in _answers(arxiv.Search(id_list=batch, max_results=len(batch)), ""):
            if isinstance(answer, Entry):
                entries.append(answer)
            else:
                log.warning("%s cannot be read in the API's answer: %s", answer.item, answer.reason)
    return merged(entries)


def by_author(name: str) -> tuple[Entry, ...]:
    """The latest papers that the API finds for an author's name, which may be another's of the
    same words. Raises FetchError.
    """
    words = " ".join(re.findall(r"[\w.'-]+", name))
    search = arxiv.Search(
        f'au:"{words}"', max_results=BY_AUTHOR, sort_by=arxiv.SortCriterion.SubmittedDate
    )
    return merged([answer for answer in _answers(search, "") if isinstance(answer, Entry)])[
        :BY_AUTHOR
    ]


def _answers(search: arxiv.Search, category: str) -> Iterator[Entry | BadEntry]:
    """The entries that `search` finds, page by page, and those that cannot be read.

    Raises FetchError.
    """
    client = arxiv.Client()
    client.query_url_format = f"{settings.ARXIV_API_URL}?{{}}"
    size = min(PAGE, search.max_results or PAGE)
    start, total = 0, 1
    while start < total:
        url, check = client._format_url(search, start, size), partial(_check, start)
        body = fetch.get(url, check=check).body
        if not _total(body):  # sometimes a mistake: request it once more
            body = fetch.get(url, check=check).body
        try:
            yield from sandbox.run(_read_page, body, category)
        except UnreadableError as error:
            raise fetch.BadAnswerError(f"the API's answer cannot be read: {error}") from error
        total = _total(body)
        start += len(_ENTRY.findall(body))


def _check(start: int, body: bytes) -> None:
    """Raise FetchError for a page that cannot be right; `start` papers came before it."""
    total = _total(body)
    if total > MAX_RESULTS:
        raise fetch.BadAnswerError(f"the API finds {total} papers, more than it can list")
    if start < total and not _ENTRY.search(body):
        raise fetch.BadAnswerError(f"the API says {total} papers and sends an empty page")
    if start and not total:
        raise fetch.BadAnswerError("the API sends an empty page")


def _total(body: bytes) -> int:
    match = _TOTAL.search(body)
    if match is None:
        raise fetch.BadAnswerError("the API's answer is not a list of papers")
    if not body.rstrip().endswith(b"</feed>"):
        raise fetch.OutOfReachError("the API's answer is cut off before its end")
    return int(match[1])


def _read_page(body: bytes, category: str) -> list[Entry | BadEntry]:
    """Return the entries of a page, and those that cannot be read. Raises BrokenFeedError."""
    items = one_by_one(body)
    return [item if isinstance(item, BadEntry) else _read(*item, category) for item in items]


def _read(name: str, feed: bytes, category: str) -> Entry | BadEntry:
    """The single entry of a feed, or why it cannot be read."""
    try:
        results = _feed.parse(feed).results
        if not results:
            raise BadEntryError("it has no identifier or lacks a date")
        return _entry(results[0], category)
    # The latter two: of invalid dates, and of dates out of range in some time zone.
    except (BadEntryError, ValueError, OverflowError) as error:
        return BadEntry(name, str(error))


def _entry(result: arxiv.Result, category: str) -> Entry:
    identifier, version = parse_identifier(result.entry_id)
    categories = category_names([result.primary_category, *result.categories])
    is_new = not category or not categories or categories[0] == category
    return Entry(
        arxiv_id=identifier,
        version=version or 1,
        announced_version=1,
        type=AnnounceType.NEW if is_new else AnnounceType.CROSS,
        title=without_tex(one_line(result.title)),
        # Join lines wrapped at 80 columns; blank and indented lines stay.
        abstract=without_tex(paragraph(re.sub(r"(?<=\S)\n(?=\S)", " ", result.summary.strip()))),
        authors=tuple(
            Author(
                unicode_name(one_line(author.name)),
                unicode_name(one_line(", ".join(author.affiliation))),
            )
            for author in result.authors
            if re.search(r"\w", author.name)
        ),
        categories=categories or ((category,) if category else ()),
        doi=one_line(result.doi or "")[:255],
        journal_ref=without_tex(one_line(result.journal_ref or ""))[:1000],
        comment=without_tex(one_line(result.comment or ""))[:2000],
        submitted_at=_moment(result.published),
        updated_at=_moment(result.updated),
    )


def _moment(value: datetime) -> datetime | None:
    """`value` (aware), or None for a date that cannot be right."""
    return value if datetime(1990, 1, 1, tzinfo=UTC) <= value <= now() + DAY else None
