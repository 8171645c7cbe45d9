"""The API's endpoints for papers, digests, feeds, methods and a reader's library."""

from collections.abc import Sequence
from datetime import date as Date
from typing import Annotated, Any, Literal

from django.contrib.auth.models import User
from django.db import transaction
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils import timezone
from ninja import Path, Query, Router

from methods import registry
from webapp.api import schemas
from webapp.api.problems import ProblemError
from webapp.api.tokens import Bearer, token_reader, visitor_with
from webapp.catalog.measured import Answered
from webapp.catalog.queries import Carried
from webapp.claims.tables.shown import ShownTable, tables_of
from webapp.core.limits import spend, visitor
from webapp.digests.lookup import find_digest, find_paper, find_profile
from webapp.digests.models import Digest, Profile
from webapp.library import queries as library_queries
from webapp.library.lists import MAX_NAME, ListError, set_lists
from webapp.library.models import LibraryEntry, ReadingList, Star
from webapp.papers.models import Paper
from webapp.papers.search import MAX_PAGES, SearchResults, search
from webapp.papers.search.query import QueryError

A_PAGE = 50  # papers of a library on a page
papers_router = Router(tags=["papers"])
public_router = Router()
library_router = Router(tags=["library"], auth=Bearer("library"))
Name = Annotated[str, Path(max_length=300)]  # a paper may be named by an address
PageNumber = Annotated[int, Query(ge=1, le=MAX_PAGES)]


@papers_router.get("", response=schemas.PaperPage, summary="Search papers")
def papers(  # noqa: PLR0917 - each is a parameter of the address
    request: HttpRequest,
    q: Annotated[str, Query(max_length=400)],
    page: PageNumber = 1,
    category: Annotated[str, Query(max_length=32)] = "",
    since: Date | None = None,
    order: Literal["relevance", "newest"] = "relevance",
) -> SearchResults:
    """As on the search page: words, "phrases", OR, author:, cat:, method:, has:measured, after:;
    with a token of the scope `library` also is:unread, list:, note:."""
    spend("searches", visitor(request))
    asking = visitor_with(request, "library")
    reader = asking if isinstance(asking, User) else None
    results = search(q, category or None, since, page, order, reader=reader)
    if results.problem:
        raise ProblemError(400, results.problem)
    return results


@papers_router.get(
    "/{path:arxiv_id}/tables", response=schemas.PaperTables, summary="The tables of a paper"
)
def tables(request: HttpRequest, arxiv_id: Name) -> dict[str, Any]:
    """Each table of its HTML with every number's row and heads; the main results first."""
    paper = find_paper(arxiv_id)
    shown = tables_of(paper)
    return {
        "paper": paper.arxiv_id,
        "version": shown.reading.version if shown.reading else None,
        "reason": shown.reading.reason if shown.reading else "not read yet",
        "tables": [_table(table, table is shown.main) for table in shown.all],
    }


def _table(shown: ShownTable, is_main: bool) -> dict[str, Any]:
    """A table as TableSchema describes it."""
    page = shown.link.partition("#")[0]
    values = [
        {name: getattr(value, name) for name in ("value", "unit", "spread", "note")}
        | {
            "row_label": value.row_label if value.is_sure else (),
            "head_path": value.head_path if value.is_sure else (),
            "text": value.cell.text,
            "corrected_from": value.cell.instead_of or None,
            "row": value.cell.row,
            "column": value.cell.column,
            "own": shown.is_own(value),
            "best": shown.is_best(value.cell),
            "cell": f"{shown.cell_id}-{value.cell.row}-{value.cell.column}",
            "link": f"{page}#{value.cell.anchor}" if value.cell.anchor else shown.link,
        }
        for value in shown.table.values
    ]
    return {
        "position": shown.stored.position,
        "number": shown.title,
        "caption": shown.stored.caption,
        "main": is_main,
        "own_found": shown.has_own,
        "link": shown.link,
        "markdown": shown.table.markdown(),
        "values": values,
    }


@papers_router.get(
    "/{path:arxiv_id}", response=schemas.WholePaper, summary="One paper with its results"
)
def paper(request: HttpRequest, arxiv_id: Name) -> Paper:
    """The paper, and each number in its summary with its quote and whether it was found."""
    return find_paper(arxiv_id)


def _page(rows: QuerySet[Any], page: int) -> dict[str, Any]:
    """A page of a list, with the number of the page after it."""
    count = rows.count()
    return {
        "count": count,
        "next": page + 1 if count > page * A_PAGE else None,
        "items": list(rows[(page - 1) * A_PAGE : page * A_PAGE]),
    }


@public_router.get(
    "/profiles",
    response=schemas.ProfilePage,
    tags=["digests"],
    summary="All feeds, at their former address",
    deprecated=True,
    operation_id="profiles",
)
@public_router.get(
    "/feeds",
    response=schemas.ProfilePage,
    tags=["digests"],
    summary="All feeds",
    operation_id="feeds",
)
def feeds(
    request: HttpRequest, page: Annotated[int, Query(ge=1, le=100_000)] = 1
) -> dict[str, Any]:
    """The public feeds, the site's own first; with a token of the scope `library` yours too."""
    seen = Profile.visible_to(visitor_with(request, "library"))
    return _page(seen.order_by("-is_site", "name", "pk"), page)


@public_router.get(
    "/digests/{profile}", response=schemas.DigestSchema, tags=["digests"], summary="A feed's day"
)
def digest(request: HttpRequest, profile: Name, date: Date | None = None) -> Digest:
    """The latest day, or that of `date`: each paper with the reasons for it."""
    return find_digest(find_profile(profile, visitor_with(request, "library")), date)


@public_router.get(
    "/methods/{slug}/results",
    response=list[schemas.MethodResult],
    tags=["methods"],
    summary="Results that a method's source reports, with verdicts",
)
def method_results(request: HttpRequest, slug: Name) -> Sequence[Answered]:
    """Each result that the source reports, once for each class of hardware with a measurement."""
    return Carried(registry.get(slug)).answers


@library_router.get("", response=schemas.LibraryPage, summary="Papers you saved or wrote about")
def library(  # noqa: PLR0917 - each is a parameter of the address
    request: HttpRequest,
    page: PageNumber = 1,
    show: Literal["all", "saved", "unread", "read", "notes", "left"] = "all",
    name: Annotated[str, Query(alias="list", max_length=MAX_NAME)] = "",
    q: Annotated[str, Query(max_length=400)] = "",
    sort: Literal["added", "announced", "title", "relevance"] = "added",
) -> dict[str, Any]:
    """A part of your library, or what a search finds in it, fifty papers per page."""
    reader = token_reader(request)
    of_list = ReadingList.objects.filter(reader=reader, name=name).first() if name else None
    if name and of_list is None:
        raise ProblemError(404, "There is no such list.")
    part = library_queries.Choice(show, of_list)
    try:
        keys = library_queries.matching_keys(reader, part, q.strip(), sort)
    except QueryError as error:
        raise ProblemError(400, str(error)) from None
    shown = library_queries.papers(keys[(page - 1) * A_PAGE : page * A_PAGE])
    mine = LibraryEntry.objects.filter(reader=reader, paper__in=shown)
    entries = {entry.paper_id: entry for entry in mine}
    saved = library_queries.shelf_of(reader, [paper.pk for paper in shown]).starred
    lists = library_queries.lists_of_papers(reader, [paper.pk for paper in shown])
    return {
        "count": len(keys),
        "next": page + 1 if len(keys) > page * A_PAGE else None,
        "items": [
            _item(paper, entries.get(paper.pk), paper.pk in saved, lists.get(paper.pk, []))
            for paper in shown
        ],
    }


@library_router.patch(
    "/{path:arxiv_id}", response=schemas.LibraryItem, summary="Change a paper in your library"
)
@transaction.atomic
def change(request: HttpRequest, arxiv_id: Name, changes: schemas.LibraryChange) -> dict[str, Any]:
    """Change the given fields and leave the rest; repeating a request changes nothing."""
    reader, paper = token_reader(request), find_paper(arxiv_id)
    given = changes.dict(exclude_unset=True)
    saved = given.pop("saved", None)
    if saved:
        Star.objects.get_or_create(reader=reader, paper=paper)
    elif saved is not None:
        Star.objects.filter(reader=reader, paper=paper).delete()
    entry, _ = LibraryEntry.objects.get_or_create(reader=reader, paper=paper)
    if (read := given.pop("read", None)) is not None:
        entry.read_at = (entry.read_at or timezone.now()) if read else None
    if (lists := given.pop("lists", None)) is not None:
        try:
            set_lists(reader, paper, lists)
        except ListError as error:
            raise ProblemError(422, str(error)) from None
    for name, value in given.items():
        setattr(entry, name, value)
    entry.save()
    starred = Star.objects.filter(reader=reader, paper=paper).exists()
    names = library_queries.lists_of_papers(reader, [paper.pk]).get(paper.pk, [])
    return _item(paper, entry, starred, names)


def _item(
    paper: Paper, entry: LibraryEntry | None, saved: bool, lists: list[str]
) -> dict[str, Any]:
    """A paper with its reader's state, note and lists, as LibraryItem describes it."""
    marks = entry or LibraryEntry()
    item = {name: getattr(marks, name) for name in ("read_at", "not_for_me", "note")}
    return item | {"paper": paper, "saved": saved, "lists": lists}
