"""A list that is shown to whoever has its secret address: what its owner changes, and its feed."""

from collections.abc import Callable

from django.contrib import messages
from django.contrib.auth.models import User
from django.db import IntegrityError, transaction
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_safe

from webapp.core.revisions import revision
from webapp.digests.feeds import paper_item
from webapp.digests.models import DigestEntry, new_feed_key
from webapp.library import queries
from webapp.library.lists import ListError, clean_name
from webapp.library.models import ReadingList
from webapp.library.queries import Choice
from webapp.ui import feed_http
from webapp.ui.feed_http import FeedSource
from webapp.ui.pages import for_readers


def shared(key: str) -> tuple[ReadingList, list[int]]:
    """The list of a secret address, and the keys of its papers, the last added first.

    Raises Http404 for one that was never given out or was withdrawn.
    """
    shown = get_object_or_404(ReadingList.objects.exclude(share_key=""), share_key=key)
    return shown, queries.keys(shown.reader, Choice(of_list=shown))


@require_safe
def feed(request: HttpRequest, key: str, suffix: str) -> HttpResponse:
    """A shared list for feed readers."""
    listed, keys = shared(key)

    def source() -> FeedSource:
        return FeedSource(
            f"list/{listed.share_key}",
            listed.name,
            _("A reading list: %(name)s.") % {"name": listed.name},
            reverse("library:shared", args=[key]),
            lambda site: [
                paper_item(site, DigestEntry(paper=paper), listed.name)
                for paper in queries.papers(keys)
            ],
            listed.created_at,
            is_private=True,
        )

    shown = (listed.name, tuple(keys), revision("papers"))
    response = feed_http.respond(request, suffix, shown, source)
    response["X-Robots-Tag"] = "noindex, nofollow"
    return response


@for_readers("POST")
def change(request: HttpRequest, reader: User, pk: int) -> HttpResponse:
    """Rename a list, share it by a new secret address, withdraw that, or delete it."""
    mine = ReadingList.objects.filter(pk=pk, reader=reader)
    listed = get_object_or_404(mine)
    action = request.POST.get("do", "")
    names = {"name": listed.name}
    if action == "delete":
        listed.papers.clear()  # what is learned of the reader hears of it
        listed.delete()
        messages.success(request, _("“%(name)s” is deleted.") % names)
        return redirect("library:library")

    def write(**values: str) -> None:
        if not mine.update(**values):  # another window deleted it meanwhile
            raise Http404

    if action in {"share", "withdraw"}:
        key = new_feed_key() if action == "share" else ""
        write(share_key=key)
        is_shared = _("Anyone with the address below can read “%(name)s”.")
        is_private = _("“%(name)s” is private again. Its address no longer works.")
        messages.success(request, (is_shared if key else is_private) % names)
    else:
        _rename(request, write)
    return redirect(f"{reverse('library:library')}?list={pk}")


def _rename(request: HttpRequest, write: Callable[..., None]) -> None:
    try:
        name = clean_name(request.POST.get("name", ""))
        with transaction.atomic():
            write(name=name)
    except ListError as error:
        messages.error(request, str(error))
    except IntegrityError:
        messages.error(request, _("You have a list “%(name)s” already.") % {"name": name})
    else:
        messages.success(request, _("The list is now called “%(name)s”.") % {"name": name})
