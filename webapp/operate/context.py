"""Template context of every page: what a page promises and a failing task keeps from it."""

from collections.abc import Mapping, Sequence

from django.http import HttpRequest
from django.utils.functional import SimpleLazyObject
from django.utils.translation import gettext

from webapp.operate.failures import failing
from webapp.ui.tables import table

CONCERNS: Sequence[Mapping[str, str | list[str]]] = table(__file__, "context.toml")["concerns"]


def failing_here(request: HttpRequest) -> dict[str, object]:
    """`failing_here` for templates: what does not happen since when, looked up on first use."""
    here = [concern for concern in CONCERNS if request.path.startswith(tuple(concern["pages"]))]
    return {"failing_here": SimpleLazyObject(lambda: _failing(here)) if here else []}


def _failing(concerns: Sequence[Mapping[str, str | list[str]]]) -> list[object]:
    since = {f.task: f.since for f in failing(*(t for c in concerns for t in c["tasks"]))}
    return [
        {"what": gettext(str(concern["what"])), "since": min(moments)}
        for concern in concerns
        if (moments := [since[task] for task in concern["tasks"] if task in since])
    ]
