"""A method's code and documents, and an operator's decision on a link."""

from django.contrib.admin.views.decorators import staff_member_required
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.views.decorators.http import require_POST, require_safe

from methods.spec import Method
from webapp.catalog import chips, linking, reading, written
from webapp.catalog.models import MethodLink


@require_POST
@staff_member_required
def decide(request: HttpRequest, pk: int) -> HttpResponse:
    """An operator's decision on a link: it is kept, counts, and becomes a label for training."""
    link = get_object_or_404(MethodLink.objects.select_related("paper"), pk=pk)
    words = {"yes": True, "no": False}
    if not linking.decide(link, words.get(request.POST.get("confirmed", ""))):
        raise Http404("This link was removed.")
    chips.refresh()
    return redirect("papers:paper", link.paper.arxiv_id)


@require_safe
def code(request: HttpRequest, method: Method) -> HttpResponse:
    """A file of a method's code: as it is, with its equations, or with the shapes of every line."""
    paths = reading.paths(method)
    level = _one_of(request.GET.get("level"), tuple(reading.LEVELS), "shapes")
    path = _one_of(request.GET.get("file"), paths, paths[0] if paths else "")
    at = paths.index(path) if paths else 0
    context = {
        "method": method,
        "levels": reading.LEVELS,
        "level": level,
        "paths": paths,
        "path": path,
        "file": reading.file(method.slug, path, level) if paths else None,
        "before": paths[at - 1] if at else "",
        "after": paths[at + 1] if at + 1 < len(paths) else "",
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


def _one_of(asked: str | None, known: tuple[str, ...], default: str) -> str:
    return asked if asked in known else default
