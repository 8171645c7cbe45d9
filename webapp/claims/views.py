"""Readers' corrections of a paper's quotes, tables and claims."""

from django.contrib import messages
from django.contrib.auth.models import User
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse, HttpResponseBadRequest, QueryDict
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.utils import timezone
from django.utils.translation import gettext as _
from django.views.decorators.cache import never_cache

from assay_common.text import one_line
from webapp.claims import corrections
from webapp.claims.corrections import Kind
from webapp.claims.extraction.quotes import Quote, quote_in, quotes
from webapp.claims.models import Correction
from webapp.claims.tables.grid import MAX_TEXT
from webapp.claims.tables.shown import ShownTable, ShownTables, tables_of
from webapp.core.input import number_in
from webapp.core.limits import spend, visitor
from webapp.papers.models import Paper
from webapp.ui.pages import for_readers

MAX_SUBJECT = 4_000  # characters
SHOWN = 100  # corrections of the queue
_SECTIONS = {Kind.QUOTE: "reports", Kind.CLAIM: "claims-title"}


class _NotPossibleError(Exception):
    """The page has no such subject, or it cannot get this value."""


@for_readers("POST")
def correct(request: HttpRequest, reader: User, arxiv_id: str) -> HttpResponse:
    """Correct or hide a quote, an own row, a main table, a cell or a claim; or undo the last one.

    A quote without a subject is one that the rules missed: its own words are the subject. A cell is
    chosen by its row and column.
    """
    paper = get_object_or_404(Paper, arxiv_id=arxiv_id)
    kind, subject = request.POST.get("kind", ""), request.POST.get("subject", "")
    is_missed = kind == Kind.QUOTE and "add" in request.POST
    has_subject = is_missed or 0 < len(subject) <= MAX_SUBJECT
    if kind not in Kind or kind == Kind.LINK or not has_subject:
        return HttpResponseBadRequest("No such subject can be corrected.")
    kind = Kind(kind)
    spend("corrections", visitor(request))
    value = request.POST.get("value", "")
    try:
        if is_missed:
            words = _missed(paper, value)
            corrections.correct(paper, kind, words, words, reader)
        elif "undo" in request.POST:
            corrections.undo_last(paper, kind, subject)
        elif kind == Kind.CELL:
            text = None if "hide" in request.POST else _cell_text(value)
            corrections.correct(paper, kind, _cell_name(paper, request.POST), text, reader)
        elif "hide" in request.POST:
            corrections.correct(paper, kind, subject, None, reader)
        else:
            checked = _checked(paper, kind, subject, value)
            corrections.correct(paper, kind, subject, checked, reader)
    except _NotPossibleError as error:
        messages.error(request, str(error))
    section = _SECTIONS.get(kind, "results")
    return redirect(f"{reverse('papers:paper', args=[arxiv_id])}#{section}")


@never_cache
@for_readers("GET", "HEAD", "POST")
def queue(request: HttpRequest, reader: User) -> HttpResponse:
    """List the corrections that an administrator has not looked at; accept or undo one."""
    if not reader.is_staff:
        raise PermissionDenied
    if pk := number_in(request.POST.get("keep", "") or request.POST.get("undo", "")):
        correction = get_object_or_404(Correction.objects.select_related("paper"), pk=pk)
        if "undo" in request.POST:
            corrections.undo(correction)
        Correction.objects.filter(pk=pk).update(checked_at=timezone.now())
        return redirect("claims:corrections")
    waiting = Correction.objects.filter(checked_at=None, undone_at=None)
    rows = waiting.select_related("paper", "reader").order_by("pk")
    context = {"rows": rows[:SHOWN], "waiting": waiting.count()}
    return render(request, "claims/corrections.html", context)


def _checked(paper: Paper, kind: Kind, subject: str, value: str) -> str | bool:
    """Return the value of a correction. Raises _NotPossibleError."""
    if kind == Kind.QUOTE:
        computed = {quote.text for quote in quotes(paper.abstract)}
        if subject in computed | {quote.subject for quote in corrections.quotes_of(paper)}:
            return _quoted(paper, value).text
    table = _table(tables_of(paper), subject)
    if kind == Kind.MAIN and table:
        return True
    if kind == Kind.ROW and table and value in table.labels:
        return value
    raise _NotPossibleError(_("This page has changed since. Please try again."))


def _cell_text(value: str) -> str:
    """Return the text that a cell should have. Raises _NotPossibleError."""
    text = one_line(value)
    if not 0 < len(text) <= MAX_TEXT:
        raise _NotPossibleError(
            _("Write what the paper has in this cell, in at most %(most)d characters.")
            % {"most": MAX_TEXT}
        )
    return text


def _cell_name(paper: Paper, form: QueryDict) -> str:
    """Return the name of the cell at a row and column, counted from 1. Raises _NotPossibleError."""
    tables = tables_of(paper)
    table = _table(tables, form.get("subject", ""))
    read_at = str(int(tables.reading.read_at.timestamp())) if tables.reading else ""
    if table is None or form.get("reading") != read_at:
        raise _NotPossibleError(_("This page has changed since. Please try again."))
    cells = {
        (cell.row + down, cell.column + right): name
        for name, cell in table.cells.items()
        for down in range(1, cell.rows + 1)
        for right in range(1, cell.columns + 1)
    }
    name = cells.get((number_in(form.get("row", "")), number_in(form.get("column", ""))), "")
    if not 0 < len(name) <= MAX_SUBJECT:
        raise _NotPossibleError(_("The paper’s table has no such cell."))
    return name


def _missed(paper: Paper, words: str) -> str:
    """Return the text of a quote that is not shown yet. Raises _NotPossibleError."""
    quote = _quoted(paper, words)
    if any(quote.overlaps(other) for other in corrections.quotes_of(paper)):
        raise _NotPossibleError(_("These words are quoted already."))
    return quote.text


def _quoted(paper: Paper, words: str) -> Quote:
    """Return the quote with these words. Raises _NotPossibleError."""
    quote = quote_in(paper.abstract, words)
    if quote is None:
        raise _NotPossibleError(
            _("The abstract has no such words with a number. Copy the words from the abstract.")
        )
    return quote


def _table(tables: ShownTables, key: str) -> ShownTable | None:
    return next((table for table in tables.all if table.key == key), None)
