"""The pages of methods: all that we carry, and one."""

from django.contrib.admin.views.decorators import staff_member_required
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.views.decorators.http import require_POST, require_safe

from methods.spec import Method
from webapp.catalog import chips, linking, queries, reading, written
from webapp.catalog.models import MethodLink
from webapp.catalog.queries import Carried
from webapp.ui.feeds import FORMATS
from webapp.ui.pages import respond


@require_safe
def methods(request: HttpRequest) -> HttpResponse:
    """Every method, with its best measured figure and how many papers concern it."""

    def page() -> HttpResponse:
        counts = queries.paper_counts()
        carried = [(one, counts.get(one.method.slug, 0)) for one in queries.all_carried()]
        return render(request, "catalog/methods.html", {"carried": carried})

    return respond(request, queries.stamp(), page)


@require_safe
def method(request: HttpRequest, method: Method) -> HttpResponse:
    """One method: what it is, what its source claims, what was measured, who writes of it."""
    return respond(request, queries.stamp(), lambda: _method_page(request, Carried(method)))


def _method_page(request: HttpRequest, carried: Carried) -> HttpResponse:
    slug = carried.method.slug
    benchmarks = {one.slug: one for one in carried.method.benchmarks}
    first = next(iter(benchmarks.values()), None)
    months = queries.papers_by_month(slug)
    context = {
        "carried": carried,
        "method": carried.method,
        "mechanism": reading.mechanism(slug),
        "equations": reading.equations(slug),
        "documents": written.paths(slug),
        "months": months,
        "most": max((count for _, count in months), default=0),
        "links": queries.papers_of(slug, undecided=request.user.is_staff),
        "benchmark": benchmarks.get(request.GET.get("benchmark", ""), first),
        "feeds": [(one.name, one.suffix, one.media_type) for one in FORMATS.values()],
    }
    return render(request, "catalog/method.html", context)


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
