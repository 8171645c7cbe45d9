"""Template tags about a reader's library, for templates of any app."""

from collections.abc import Iterable
from typing import Any

from django import template
from django.db.models import Exists, OuterRef
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
def shelf(context: RequestContext, shown: Iterable[Any]) -> Shelf:
    """The signed-in reader's marks on these papers, or on the papers of these entries."""
    if is_shared(context["request"]) or not context["user"].is_authenticated:
        return Shelf()  # a shared page gets each reader's marks later
    papers = [entry if isinstance(entry, Paper) else entry.paper for entry in shown]
    return queries.shelf_of(context["user"], [paper.pk for paper in papers])


@register.inclusion_tag("library/panel.html", takes_context=True)
def library_panel(context: RequestContext, paper: Paper) -> dict[str, object]:
    """The signed-in reader's read state, note and lists of a paper; empty for others."""
    reader = context["user"]
    if not reader.is_authenticated:
        return {}
    entry = LibraryEntry.objects.filter(reader=reader, paper=paper.pk).first() or LibraryEntry()
    holding = ReadingList.papers.through.objects.filter(readinglist=OuterRef("pk"), paper=paper.pk)
    lists = list(ReadingList.objects.filter(reader=reader).annotate(holds=Exists(holding)))
    return {
        "request": context["request"],
        "paper": paper,
        "entry": entry,
        "form": EntryForm(initial={"note": entry.note}, label_suffix="", auto_id="library_%s"),
        "lists": lists,
        "seen": queries.panel_state(entry, {listed.pk for listed in lists if listed.holds}),
    }


@register.filter
def note_html(text: str) -> SafeString:
    """A note's Markdown as sanitised HTML: CommonMark without raw HTML and images."""
    return sanitised_blocks(_MARKDOWN.render(text))
