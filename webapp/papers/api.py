"""arXiv's API through the `arxiv` package: what the feeds missed, and what they lack.

The package builds the queries, turns the pages and reads the entries. Its own way to the network
has no timeout, no back-off and no Retry-After, so it gets a transport of ours that asks through
`fetch.get`, which also refuses to believe an empty or cut-off page before it was asked for again.
"""

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from datetime import UTC, date, datetime, timedelta

import arxiv
import requests
from django.conf import settings
from requests.adapters import BaseAdapter

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


def submitted(category: str, first: date, last: date) -> dict[date, Batch]:
    """The papers of `category` in the batches of `first` to `last`, by the day of their batch.

    The API knows when version 1 was submitted, not when a paper was announced: a day taken from
    it holds the papers submitted within its window, as new in their primary category and as
    cross-lists elsewhere; replacements, later cross-lists and papers that moderators held back
    are not in it. Raises FetchError.
    """
    since, until = submission_window(first)[0], submission_window(last)[1] - timedelta(minutes=1)
    pages = _Pages()
    query = f"cat:{category} AND submittedDate:[{since:%Y%m%d%H%M} TO {until:%Y%m%d%H%M}]"
    search = arxiv.Search(
        query,
        max_results=MOST,
        sort_by=arxiv.SortCriterion.SubmittedDate,
        sort_order=arxiv.SortOrder.Ascending,
    )
    entries: dict[date, list[Entry]] = defaultdict(list)
    problems: dict[date, list[Problem]] = defaultdict(list)
    seen = 0
    for result in pages.results(search):
        seen += 1
        # What the API gives beyond the days asked for counts to the nearest of them.
        day = min(max(batch_day_of(result.published), first), last)
        _read(result, category, entries[day], problems[day])
    # An entry that the library could not parse is missing from its pages, not from its count.
    if seen < pages.total:
        lost = Problem("API", f"{pages.total - seen} of {pages.total} entries cannot be read")
        problems[last].append(lost)
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
        asked = list(identifiers[start : start + IDS])
        for result in _Pages().results(arxiv.Search(id_list=asked, max_results=len(asked))):
            _read(result, "", entries, [])
    return one_a_paper(entries)


def _read(
    result: arxiv.Result, category: str, entries: list[Entry], problems: list[Problem]
) -> None:
    """Add what a result says to `entries`, or why it says nothing to `problems`."""
    try:
        entries.append(_entry(result, category))
    except (BadEntryError, ValueError) as error:
        problems.append(Problem(one_line(result.entry_id)[:120], str(error)))


def _entry(result: arxiv.Result, category: str) -> Entry:
    identifier, version = parse_identifier(result.entry_id)
    categories = category_names([result.primary_category, *result.categories])
    is_new = not category or not categories or categories[0] == category
    return Entry(
        arxiv_id=identifier,
        version=version or 1,
        announced_version=1,
        type=AnnounceType.NEW if is_new else AnnounceType.CROSS,
        title=one_line(result.title),
        abstract=paragraph(_unwrapped(result.summary)),
        authors=tuple(
            Author(one_line(author.name), one_line(", ".join(author.affiliation)))
            for author in result.authors
            if one_line(author.name)
        ),
        categories=categories or ((category,) if category else ()),
        doi=one_line(result.doi or "")[:255],
        journal_ref=one_line(result.journal_ref or "")[:1000],
        comment=one_line(result.comment or "")[:2000],
        submitted_at=_moment(result.published),
        updated_at=_moment(result.updated),
    )


def _unwrapped(summary: str) -> str:
    """The abstract without the line breaks at 80 columns; blank and indented lines stay."""
    return re.sub(r"(?<=\S)\n(?=\S)", " ", summary.strip())


def _moment(value: datetime) -> datetime | None:
    moment = value if value.tzinfo else value.replace(tzinfo=UTC)
    return moment if moment.year >= 1990 else None


class _Pages(BaseAdapter):
    """The transport under the package: requests in, `fetch.get`, responses out."""

    def __init__(self) -> None:
        super().__init__()
        self.total = 0

    def results(self, search: arxiv.Search) -> Iterator[arxiv.Result]:
        """The results of `search`, page by page. Raises FetchError."""
        client = arxiv.Client(page_size=min(PAGE, search.max_results or PAGE))
        client.query_url_format = f"{settings.ARXIV_API_URL}?{{}}"
        client.delay_seconds = 0.0  # the limiter waits, for every process at once
        client.num_retries = 0  # fetch.get asks again
        client._session.trust_env = False
        client._session.mount("https://", self)
        client._session.mount("http://", self)
        try:
            yield from client.results(search)
        except arxiv.ArxivError as error:
            raise fetch.RefusedError(f"the API's answer cannot be used: {error.message}") from error
        except ValueError as error:  # a date that is none, anywhere in a page, ends its reading
            raise fetch.RefusedError(f"the API's answer cannot be read: {error}") from error

    def send(
        self, request: requests.PreparedRequest, *_: object, **__: object
    ) -> requests.Response:
        """Answer a request of the package's."""
        assert request.url is not None
        start = int((re.search(r"[?&]start=(\d+)", request.url) or ["", "0"])[1])
        empties = 0

        def check(body: bytes) -> None:
            nonlocal empties
            total = _total(body)
            if total > MOST:
                raise fetch.RefusedError(f"the API finds {total} papers, more than it can list")
            if start < total and b"<entry" not in body:
                raise fetch.RefusedError(f"the API says {total} papers and sends an empty page")
            # An empty first answer is now and then a mistake: once more before it is believed.
            if total == 0 and empties == 0:
                empties += 1
                raise fetch.RefusedError("the API sends an empty page")
            self.total = total

        answer = fetch.get(request.url, check=check)
        response = requests.Response()
        response.status_code = answer.status
        response.url = answer.url
        response.request = request
        response._content = answer.body
        return response

    def close(self) -> None:
        """Nothing is kept open."""


def _total(body: bytes) -> int:
    match = _TOTAL.search(body)
    if match is None:
        raise fetch.RefusedError("the API's answer is no list of papers")
    if not body.rstrip().endswith(b"</feed>"):
        raise fetch.OutOfReachError("the API's answer is cut off before its end")
    return int(match[1])
