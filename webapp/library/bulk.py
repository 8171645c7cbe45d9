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
from webapp.library.forms import MAX_TAGS, EntryForm
from webapp.library.models import MAX_LISTS, LibraryEntry, ReadingList, Star
from webapp.library.queries import Choice
from webapp.papers import citations
from webapp.papers.models import Paper
from webapp.ui.pages import back, for_readers

MOST = 50  # papers: those of one page


class BulkError(ValueError):
    """An action that cannot be done; nothing is changed. The message is for the reader."""


@for_readers("POST")
def bulk(request: HttpRequest, reader: User) -> HttpResponse:
    """Tag the chosen papers, put them on a list, take them out of a part, or export them."""
    names = request.POST.getlist("chosen")[:MOST]
    by_identifier = {paper.arxiv_id: paper for paper in Paper.objects.filter(arxiv_id__in=names)}
    papers = [by_identifier[name] for name in dict.fromkeys(names) if name in by_identifier]
    suffix = request.POST.get("export", "")
    if papers and suffix in citations.FILES:
        spend("exports", visitor(request))
        return citations.download(papers, "assay", suffix)
    try:
        messages.success(request, _act(request, reader, papers))
    except BulkError as error:
        messages.error(request, f"{error} " + _("Nothing was changed."))
    return back(request, "/library/", "#cards")


@transaction.atomic
def _act(request: HttpRequest, reader: User, papers: Sequence[Paper]) -> str:
    """Apply the chosen action and return the message about it. Raises BulkError."""
    action = request.POST.get("do", "")
    if not papers:
        raise BulkError(_("Select papers first."))
    counted = {"count": len(papers)}
    if action == "tag":
        tags = _tag(reader, papers, request.POST.get("tags", ""))
        done = ngettext("One paper has", "%(count)d papers have", len(papers)) % counted
        return _("%(papers)s the tags %(tags)s now.") % {"papers": done, "tags": ", ".join(tags)}
    if action == "list":
        name = _list(reader, papers, request.POST.get("name", ""))
        done = ngettext("One paper is", "%(count)d papers are", len(papers)) % counted
        return _("%(papers)s on “%(name)s”.") % {"papers": done, "name": name}
    if action == "remove":
        part = queries.choice(reader, request.POST.dict())
        _remove(reader, papers, part)
        done = ngettext("One paper is", "%(count)d papers are", len(papers)) % counted
        # Of all papers those are removed that are saved; notes, tags and lists stay.
        name = _(queries.SHOWN["saved"] if part.title == queries.SHOWN["all"] else part.title)
        return _("%(papers)s no longer in “%(name)s”.") % {"papers": done, "name": name}
    raise BulkError(_("There is no such action."))


def _tag(reader: User, papers: Sequence[Paper], text: str) -> list[str]:
    form = EntryForm({"tags": text})
    if not form.is_valid() or not form.cleaned_data["tags"]:
        wrong = " ".join(map(str, form.errors.get("tags", [])))
        raise BulkError(wrong or _("Write a tag."))
    tags: list[str] = form.cleaned_data["tags"]
    for paper in papers:
        entry = LibraryEntry.objects.get_or_create(reader=reader, paper=paper)[0]
        entry.tags = list(dict.fromkeys([*entry.tags, *tags]))
        if len(entry.tags) > MAX_TAGS:
            most = _("%(paper)s would have more than %(most)d tags.")
            raise BulkError(most % {"paper": paper.arxiv_id, "most": MAX_TAGS})
        entry.save(update_fields=["tags", "changed_at"])
    return tags


def _list(reader: User, papers: Sequence[Paper], text: str) -> str:
    name = " ".join(text.split())
    mine = ReadingList.objects.filter(reader=reader)
    if not name or len(name) > 80:
        raise BulkError(_("Write the name of a list, at most 80 characters."))
    if mine.count() >= MAX_LISTS and not mine.filter(name=name).exists():
        most = _("The limit is %(most)d lists. Delete one to create another.")
        raise BulkError(most % {"most": MAX_LISTS})
    mine.get_or_create(reader=reader, name=name)[0].papers.add(*papers)
    return name


def _remove(reader: User, papers: Sequence[Paper], part: Choice) -> None:
    """Take papers out of a part of the library: what put them there is undone."""
    entries = LibraryEntry.objects.filter(reader=reader, paper__in=papers)
    if part.of_list:
        part.of_list.papers.remove(*papers)
    elif not part.tag and part.show in {"all", "saved", "unread"}:
        for star in Star.objects.filter(reader=reader, paper__in=papers):
            star.delete()  # one by one: a profile learns from it
    else:
        for entry in entries:
            if part.tag:
                entry.tags = [tag for tag in entry.tags if tag != part.tag]
            elif part.show == "read":
                entry.read_at = None
            elif part.show == "left":
                entry.not_for_me = False
            else:
                raise BulkError(_("A note is deleted on its paper’s page."))
            entry.save()
