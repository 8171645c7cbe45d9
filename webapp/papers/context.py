"""Template context of every page: whether the site shows only the sample day."""

from django.http import HttpRequest
from django.utils.functional import SimpleLazyObject

from webapp.papers.audit_messages import translate_reason
from webapp.papers.models import Listing


def sample(request: HttpRequest) -> dict[str, object]:
    """`sample` for templates: `{"reason": why the last fetch failed}`, or None with real days.

    Evaluated on first use.
    """
    return {"sample": SimpleLazyObject(_sample)}


def _sample() -> dict[str, str] | None:
    if not Listing.objects.filter(source=Listing.Source.SAMPLE).exists():
        return None
    failed = Listing.objects.filter(state=Listing.State.FAILED).order_by("-polled_at").first()
    return {"reason": translate_reason(failed.reason.rstrip(".") + ".") if failed else ""}
