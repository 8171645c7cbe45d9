"""A reader's library."""

from django.contrib.auth.models import User
from django.core.paginator import Paginator
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render

from webapp.digests.models import Profile
from webapp.library import queries
from webapp.library.learning import LEAST
from webapp.library.models import ReadingList
from webapp.ui.pages import for_readers

PAPERS_A_PAGE = 50


@for_readers("GET", "HEAD")
def library(request: HttpRequest, reader: User) -> HttpResponse:
    """A part of the library, the latest first."""
    part = queries.choice(reader, request.GET.dict())
    page = Paginator(queries.keys(reader, part), PAPERS_A_PAGE).get_page(request.GET.get("page"))
    model, liked, disliked = queries.learned(reader)
    context = {
        "part": part,
        "page": page,
        "papers": queries.papers(list(page.object_list)),
        "shown": queries.SHOWN.items(),
        "tags": queries.tags(reader),
        "lists": ReadingList.objects.filter(reader=reader),
        "model": model,
        "liked_words": liked,
        "disliked_words": disliked,
        "least": LEAST,
        "used": Profile.objects.filter(owner=reader).exclude(ranking="rules").exists(),
    }
    return render(request, "pages/library.html", context)
