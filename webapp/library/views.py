"""The pages of a reader's library, which nobody else can see."""

from django.contrib import messages
from django.contrib.auth.models import User
from django.core import signing
from django.db import transaction
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils import timezone
from django.utils.translation import gettext as _
from django.views.decorators.cache import never_cache
from django.views.decorators.csrf import csrf_exempt
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_http_methods

from webapp.core.input import number_in
from webapp.core.limits import LimitReachedError, spend, visitor
from webapp.core.sandbox import UnreadableError
from webapp.digests.lookup import find_paper
from webapp.library import queries, zotero, zotero_reading
from webapp.library.feedback import ask
from webapp.library.forms import EntryForm, ImportForm, ZoteroForm
from webapp.library.importing import ask_for, import_liked
from webapp.library.lists import ListError, named_list
from webapp.library.models import LibraryEntry, LikedText, ReadingList, Star, ZoteroReading
from webapp.papers import citations
from webapp.readers.links import read_save_token
from webapp.ui.pages import asked_mark, back, for_readers


@for_readers("GET", "HEAD")
def export(request: HttpRequest, reader: User, suffix: str) -> HttpResponse:
    """A part of the library for a reference manager."""
    spend("exports", visitor(request))
    part = queries.choice(reader, request.GET.dict())
    return citations.download(queries.papers(queries.keys(reader, part)), "assay", suffix)


@for_readers("POST")
def star(request: HttpRequest, reader: User) -> HttpResponse:
    """Save a paper, or remove it; JSON for the script, a redirect for a form."""
    name, is_saved = asked_mark(request)
    paper = find_paper(name)
    if is_saved:
        Star.objects.get_or_create(reader=reader, paper=paper)
    else:
        Star.objects.filter(reader=reader, paper=paper).delete()
    return back(request, "/", f"#p-{paper.arxiv_id}", starred=is_saved)


@csrf_exempt  # the token is the proof, and a mail program has no cookie
@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
def save(request: HttpRequest, token: str) -> HttpResponse:
    """Save a paper from a mail: a button on GET, so that a scanner of links saves nothing."""
    try:
        reader, arxiv_id = read_save_token(token)
    except (signing.BadSignature, User.DoesNotExist):
        raise Http404("This link is no longer valid.") from None
    paper = find_paper(arxiv_id)
    if request.method == "POST":
        Star.objects.get_or_create(reader=reader, paper=paper)
    saved = Star.objects.filter(reader=reader, paper=paper).exists()
    return render(request, "library/save.html", {"paper": paper, "saved": saved})


@for_readers("POST")
def leave(request: HttpRequest, reader: User) -> HttpResponse:
    """Mark a paper as not for the reader, or take that back; it is then no longer saved."""
    name, is_left = asked_mark(request)
    paper = find_paper(name)
    entry = LibraryEntry.objects.get_or_create(reader=reader, paper=paper)[0]
    entry.not_for_me = is_left
    entry.save(update_fields=["not_for_me", "changed_at"])
    return back(request, "/library/", f"#p-{paper.arxiv_id}", left=is_left)


@for_readers("POST")
@transaction.atomic
def forget(request: HttpRequest, reader: User) -> HttpResponse:
    """Forget what feeds learn from beside saved papers: "Not for me" and imported texts."""
    LibraryEntry.objects.filter(reader=reader, not_for_me=True).update(not_for_me=False)
    LikedText.objects.filter(reader=reader).delete()
    messages.success(request, _("Forgotten. Your feeds learn from your saved papers alone."))
    ask(reader.pk)
    return redirect("library:library")


@for_readers("POST")
@transaction.atomic
def entry(request: HttpRequest, reader: User, arxiv_id: str) -> HttpResponse:
    """Mark a paper as read (`read=1`) or unread (`read=0`), or set its note and lists."""
    paper = find_paper(arxiv_id)
    marks = LibraryEntry.objects.select_for_update().get_or_create(reader=reader, paper=paper)[0]
    if "read" in request.POST:
        is_read = request.POST["read"] != "0"
        marks.read_at = (marks.read_at or timezone.now()) if is_read else None
        marks.save(update_fields=["read_at", "changed_at"])
        return back(request, "/library/", "#library")
    form = EntryForm(request.POST)
    if not form.is_valid():
        for field, errors in form.errors.items():
            wrong = f"{_(str(form[field].label))}: {' '.join(map(str, errors))}"
            messages.error(request, wrong + " " + _("Nothing was saved."))
        return back(request, "/library/", "#library")
    note = form.cleaned_data["note"].strip()
    mine = ReadingList.objects.filter(reader=reader)
    chosen = set(map(number_in, request.POST.getlist("lists")))
    held = set(mine.filter(papers=paper).values_list("pk", flat=True))
    state = queries.panel_state(marks, held)
    if request.POST.get("seen", state) != state:  # the form is older than what another window wrote
        note, chosen = _joined(marks.note, note), chosen | held
        both = _("This was changed in another window meanwhile. Both versions are kept.")
        messages.warning(request, both)
    marks.note = note
    marks.save(update_fields=["note", "changed_at"])
    if name := form.cleaned_data["new_list"]:
        try:
            chosen.add(named_list(reader, name).pk)
        except ListError as error:
            messages.error(request, str(error))
    for listed in mine.all():
        (listed.papers.add if listed.pk in chosen else listed.papers.remove)(paper)
    messages.success(request, "Saved in your library.")
    return back(request, "/library/", "#library")


def _joined(stored: str, note: str) -> str:
    """Return two versions of a note as one, without what one repeats of the other."""
    if note in stored:
        return stored
    return note if stored in note else f"{stored}\n\n{note}"


@for_readers("GET", "HEAD", "POST")
def import_(request: HttpRequest, reader: User) -> HttpResponse:
    """Import papers one likes: those of this site are saved, others kept to learn from."""
    form = ImportForm(request.POST or None, request.FILES or None, label_suffix="")
    context: dict[str, object] = {"form": form}
    if form.is_bound and form.is_valid():
        spend("imports", visitor(request))
        try:
            done = import_liked(reader, form.cleaned_data["text"])
        except UnreadableError as error:
            form.add_error("text", _("This cannot be imported: %s.") % error)
        else:
            requested = _ask_for(request, reader, done.unknown)
            context |= {"done": done, "asked": requested, "form": ImportForm(label_suffix="")}
    status = 422 if form.errors else 200
    return render(request, "library/import.html", context, status=status)


def _ask_for(request: HttpRequest, reader: User, identifiers: list[str]) -> bool | None:
    """Request papers from arXiv; False if none are or the broker is down, None at the limit."""
    try:
        return bool(identifiers) and ask_for(reader, identifiers)
    except LimitReachedError as error:
        messages.error(request, str(error))
        return None


@sensitive_post_parameters("key")
@for_readers("GET", "HEAD", "POST")
def zotero_(request: HttpRequest, reader: User) -> HttpResponse:
    """Connect a Zotero library, and read it."""
    account = zotero.account(reader)
    form = ZoteroForm(request.POST if "key" in request.POST else None, label_suffix="")
    if form.is_bound and form.is_valid():
        zotero.connect(reader, zotero.Account(**form.cleaned_data))
    elif "forget" in request.POST:
        zotero.connect(reader, None)
        zotero_reading.forget(reader)
        ask(reader.pk)
    elif "read" in request.POST and account:
        _read_zotero(request, reader)
    else:
        context = {
            "account": account,
            "form": form,
            "reading": ZoteroReading.objects.filter(reader=reader).first(),
            "read": reader.zotero_items.count(),
            "liked": len(zotero_reading.liked(reader)),
        }
        status = 422 if form.is_bound else 200
        return render(request, "library/zotero.html", context, status=status)
    return redirect(request.get_full_path())


def _read_zotero(request: HttpRequest, reader: User) -> None:
    """Store which collections to learn from, where they are known, and read the library."""
    spend("imports", visitor(request))
    for name in ("include", "exclude"):
        reading = ZoteroReading.objects.filter(reader=reader).first()
        keys = {collection["key"] for collection in reading.collections} if reading else set()
        chosen = [key for key in request.POST.getlist(name) if key in keys]
        ZoteroReading.objects.filter(reader=reader).update(**{name: chosen})
    try:
        zotero_reading.read(reader)
    except zotero.ZoteroError as error:
        messages.error(request, str(error))
        return
    ask(reader.pk)
    count = len(zotero_reading.liked(reader))
    messages.success(request, _("Feeds that learn now use %d papers from Zotero.") % count)
