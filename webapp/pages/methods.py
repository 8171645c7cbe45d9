"""The pages of methods: all that we carry, and one."""

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from methods.spec import Method
from webapp.catalog import queries, reading, written
from webapp.catalog.queries import Carried
from webapp.core.revisions import revision
from webapp.ui.feeds import FORMATS
from webapp.ui.pages import respond

LATEST = 2  # papers about a method, on the page of all


@require_safe
def methods(request: HttpRequest) -> HttpResponse:
    """Every method: its mechanism, its verdicts, its best figure, the latest papers about it."""

    def page() -> HttpResponse:
        counts, latest = queries.paper_counts(), queries.latest_papers(LATEST)
        rows = [
            {
                "method": carried.method,
                "mechanism": reading.mechanism(carried.method.slug),
                "verdicts": carried.verdicts,
                "best": carried.best,
                "measured": bool(carried.measurements),
                "papers": counts.get(carried.method.slug, 0),
                "latest": latest.get(carried.method.slug, []),
            }
            for carried in queries.all_carried()
        ]
        return render(request, "pages/methods.html", {"rows": rows})

    return respond(request, revision("methods", "papers", "sample"), page)


@require_safe
def method(request: HttpRequest, method: Method) -> HttpResponse:
    """One method: what it is, what its source claims, what was measured, who writes of it."""
    return respond(
        request,
        revision("methods", "papers", "sample"),
        lambda: _method_page(request, Carried(method)),
    )


def _method_page(request: HttpRequest, carried: Carried) -> HttpResponse:
    slug = carried.method.slug
    benchmarks = {benchmark.slug: benchmark for benchmark in carried.method.benchmarks}
    question = carried.method.question
    # First what its source claims to answer, else what takes minutes.
    ordered = sorted(
        benchmarks.values(),
        key=lambda benchmark: (
            question is None or benchmark.slug != question.benchmark,
            "quick" not in benchmark.presets,
        ),
    )
    first = next(iter(ordered), None)
    context = {
        "carried": carried,
        "method": carried.method,
        "mechanism": reading.mechanism(slug),
        "equations": reading.equations(slug),
        "documents": written.paths(slug),
        "links": queries.papers_of(slug),
        "question": question,
        "benchmark": benchmarks.get(request.GET.get("benchmark", ""), first),
        "feeds": [(form.name, form.suffix, form.media_type) for form in FORMATS.values()],
    }
    return render(request, "pages/method.html", context)
