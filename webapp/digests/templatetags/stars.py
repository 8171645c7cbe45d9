"""What a reader saved, for pages of any room."""

from __future__ import annotations

from collections.abc import Iterable

from django import template
from django.template.context import RequestContext

from webapp.digests.models import Star
from webapp.papers.models import Paper

register = template.Library()


@register.simple_tag(takes_context=True)
def starred(context: RequestContext, papers: Iterable[Paper]) -> set[int]:
    """Primary keys of those papers that the signed-in reader keeps; none for the anonymous."""
    reader = context["user"]
    if not reader.is_authenticated:
        return set()
    kept = Star.objects.filter(reader=reader, paper__in=list(papers))
    return set(kept.values_list("paper_id", flat=True))
