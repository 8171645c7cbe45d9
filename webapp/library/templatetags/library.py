"""A reader's library in templates of any room."""

from collections.abc import Iterable
from itertools import chain
from typing import Any

from django import template
from django.template.context import RequestContext
from django.utils.safestring import SafeString
from markdown_it import MarkdownIt

from webapp.library import queries
from webapp.library.forms import EntryForm
from webapp.library.models import LibraryEntry, ReadingList
from webapp.papers.models import Paper
from webapp.ui.personal import Shelf, is_shared
from webapp.ui.templatetags.ui import sanitised_blocks

register = template.Library()
_MARKDOWN = MarkdownIt("commonmark", {"html": False, "linkify": False}).disable("image")


@register.simple_tag(takes_context=True)
def shelf(context: RequestContext, *shown: Paper | Iterable[Any]) -> Shelf:
    """Of the papers (or entries, each with one) given, what the signed-in reader does with them."""
    if is_shared(context["request"]) or not context["user"].is_authenticated:
        return Shelf()  # of a shared page laid over for each reader
    rows = chain.from_iterable([one] if isinstance(one, Paper) else one for one in shown)
    papers = [one if isinstance(one, Paper) else one.paper for one in rows]
    return queries.shelf_of(context["user"], [paper.pk for paper in papers])


@register.inclusion_tag("library/panel.html", takes_context=True)
def library_panel(context: RequestContext, paper: Paper) -> dict[str, object]:
    """The signed-in reader's read state, note, tags and lists of a paper; empty for others."""
    reader = context["user"]
    if not reader.is_authenticated:
        return {}
    entry = LibraryEntry.objects.filter(reader=reader, paper=paper).first() or LibraryEntry()
    mine = ReadingList.objects.filter(reader=reader)
    holding = set(mine.filter(papers=paper).values_list("pk", flat=True))
    initial = {"note": entry.note, "tags": ", ".join(entry.tags)}
    return {
        "request": context["request"],
        "paper": paper,
        "entry": entry,
        "form": EntryForm(initial=initial, label_suffix="", auto_id="library_%s"),
        "lists": [(one, one.pk in holding) for one in mine],
    }


@register.filter
def note_html(text: str) -> SafeString:
    """A note's Markdown as sanitised HTML: CommonMark without raw HTML and pictures."""
    return sanitised_blocks(_MARKDOWN.render(text))
