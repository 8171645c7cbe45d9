"""Bulk actions on papers of a reader's library."""

from collections.abc import Sequence

from django.contrib import messages
from django.contrib.auth.models import User
from django.db import transaction
from django.http import HttpRequest, HttpResponse
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from webapp.core.limits import spend, visitor
from webapp.library import queries
from webapp.library.lists import ListError, named_list
from webapp.library.models import LibraryEntry, Star
from webapp.library.queries import Choice
from webapp.papers import citations
from webapp.papers.models import Paper
from webapp.ui.pages import back, for_readers

MAX_PAPERS = 50  # of one page


class BulkError(ValueError):
    """An action that cannot be done; nothing is changed. The message is for the reader."""


@for_readers("POST")
def bulk(request: HttpRequest, reader: User) -> HttpResponse:
    """Put the chosen papers on a list, take them out of a part, or export them."""
    names = request.POST.getlist("chosen")[:MAX_PAPERS]
    by_identifier = {paper.arxiv_id: paper for paper in Paper.objects.filter(arxiv_id__in=names)}
    papers = [by_identifier[name] for name in dict.fromkeys(names) if name in by_identifier]
    suffix = request.POST.get("export", "")
    if papers and suffix in citations.FILES:
        spend("exports", visitor(request))
        return citations.download(papers, "assay", suffix)
    try:
        messages.success(request, _act(request, reader, papers))
    except (BulkError, ListError) as error:
        messages.error(request, f"{error} " + _("Nothing was changed."))
    return back(request, "/library/", "#cards")


@transaction.atomic
def _act(request: HttpRequest, reader: User, papers: Sequence[Paper]) -> str:
    """Apply the chosen action and return the message about it. Raises BulkError, ListError."""
    action = request.POST.get("do", "")
    if not papers:
        raise BulkError(_("Select papers first."))
    count = len(papers)
    done = ngettext("One paper is", "%(count)d papers are", count) % {"count": count}
    if action == "list":
        listed = named_list(reader, request.POST.get("name", ""))
        listed.papers.add(*papers)
        return _("%(papers)s on “%(name)s”.") % {"papers": done, "name": listed.name}
    if action == "remove":
        part = queries.choice(reader, request.POST.dict())
        _remove(reader, papers, part)
        # Of all papers those are removed that are saved; notes and lists stay.
        name = _(queries.SHOWN["saved"] if part.title == queries.SHOWN["all"] else part.title)
        return _("%(papers)s no longer in “%(name)s”.") % {"papers": done, "name": name}
    raise BulkError(_("There is no such action."))


def _remove(reader: User, papers: Sequence[Paper], part: Choice) -> None:
    """Take papers out of a part of the library: what put them there is undone."""
    if part.of_list:
        part.of_list.papers.remove(*papers)
    elif part.show in {"all", "saved", "unread"}:
        for star in Star.objects.filter(reader=reader, paper__in=papers):
            star.delete()  # one by one: a profile learns from it
    else:
        for entry in LibraryEntry.objects.filter(reader=reader, paper__in=papers):
            if part.show == "read":
                entry.read_at = None
            elif part.show == "left":
                entry.not_for_me = False
            else:
                raise BulkError(_("To delete a note, open its paper’s page."))
            entry.save()
