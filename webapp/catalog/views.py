"""A method's code and documents, and corrections of links."""

from django.contrib.auth.models import User
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseBadRequest
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.views.decorators.http import require_safe

from methods.spec import Method
from webapp.catalog import chips, corrections, reading, written
from webapp.papers.models import Paper
from webapp.ui.pages import for_readers


@for_readers("POST")
def correct(request: HttpRequest, reader: User, arxiv_id: str, method: Method) -> HttpResponse:
    """Correct whether a paper is about a method, and its mechanism; or undo the last correction."""
    paper = get_object_or_404(Paper, arxiv_id=arxiv_id)
    mechanism = request.POST.get("mechanism")
    if request.POST.get("undo"):
        corrections.undo(paper, method.slug)
    elif request.POST.get("about") == "no":
        corrections.correct(paper, method.slug, reader, about=False)
    elif mechanism is None or mechanism in {"", *(m.slug for m in method.mechanisms)}:
        corrections.correct(paper, method.slug, reader, mechanism=mechanism)
    else:
        return HttpResponseBadRequest("The method has no such mechanism.")
    chips.refresh()
    return redirect(reverse("papers:paper", args=[arxiv_id]) + "#testable")


@require_safe
def measurements(_request: HttpRequest, method: Method, suffix: str) -> HttpResponse:
    """Send readers of a method's former feed to that of all results."""
    return redirect("runs:feed", suffix, permanent=True)


@require_safe
def code(request: HttpRequest, method: Method) -> HttpResponse:
    """A file of a method's code: as it is, with its equations, or with the shapes of every line."""
    paths = reading.paths(method)
    level = _one_of(request.GET.get("level"), tuple(reading.LEVELS), "shapes")
    path = _one_of(request.GET.get("file"), paths, paths[0] if paths else "")
    index = paths.index(path) if paths else 0
    context = {
        "method": method,
        "levels": reading.LEVELS,
        "level": level,
        "paths": paths,
        "path": path,
        "file": reading.file(method.slug, path, level) if paths else None,
        "before": paths[index - 1] if index else "",
        "after": paths[index + 1] if index + 1 < len(paths) else "",
    }
    return render(request, "catalog/code.html", context)


@require_safe
def documents(request: HttpRequest, method: Method) -> HttpResponse:
    """One of a method's written results, by default its README."""
    paths = written.paths(method.slug)
    if not paths:
        raise Http404(f"The method {method.slug} has no README.")
    path = _one_of(request.GET.get("file"), paths, paths[0])
    context = {
        "method": method,
        "paths": paths,
        "path": path,
        "document": written.html(method.slug, path),
    }
    return render(request, "catalog/documents.html", context)


def _one_of(value: str | None, choices: tuple[str, ...], default: str) -> str:
    return value if value in choices else default
