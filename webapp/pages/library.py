"""A reader's library."""

from django.contrib.auth.models import User
from django.core.paginator import Paginator
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from webapp.digests.models import Profile
from webapp.library import queries
from webapp.library.models import ReadingList
from webapp.library.sharing import shared
from webapp.papers.search.query import MAX_QUERY, QueryError
from webapp.ui.feeds import FORMATS
from webapp.ui.pages import for_readers

PAPERS_A_PAGE = 50


@for_readers("GET", "HEAD")
def library(request: HttpRequest, reader: User) -> HttpResponse:
    """A part of the library, the latest first."""
    part = queries.choice(reader, request.GET.dict())
    q = request.GET.get("q", "").strip()[:MAX_QUERY]
    order = request.GET.get("sort", "")
    sort = order if order in queries.SORTS else "relevance" if q else "added"
    keys, problem = list[int](), ""
    try:
        keys = queries.matching_keys(reader, part, q, sort)
    except QueryError as error:
        problem = str(error)
    page = Paginator(keys, PAPERS_A_PAGE).get_page(request.GET.get("page"))
    model, liked, disliked = queries.learned(reader)
    context = {
        "part": part,
        "page": page,
        "papers": queries.papers(list(page.object_list)),
        "q": q,
        "sort": sort,
        "sorts": queries.SORTS.items(),
        "problem": problem,
        "shown": queries.SHOWN.items(),
        "lists": ReadingList.objects.filter(reader=reader),
        "model": model,
        "liked_words": liked,
        "disliked_words": disliked,
        "counts": queries.feedback_counts(reader),
        "used": Profile.objects.filter(owner=reader).exclude(ranking="rules").exists(),
    }
    return render(request, "pages/library.html", context)


@require_safe
def shared_list(request: HttpRequest, key: str) -> HttpResponse:
    """A list for whoever has its secret address: read only, and not for search engines."""
    listed, keys = shared(key)
    page = Paginator(keys, PAPERS_A_PAGE).get_page(request.GET.get("page"))
    context = {
        "name": listed.name,
        "key": key,
        "page": page,
        "papers": queries.papers(list(page.object_list)),
        "feeds": [(form.name, form.suffix, form.media_type) for form in FORMATS.values()],
    }
    response = render(request, "pages/shared_list.html", context)
    response["X-Robots-Tag"] = "noindex, nofollow"
    response["Cache-Control"] = "private, no-cache"
    return response
