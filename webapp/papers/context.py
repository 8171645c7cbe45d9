"""Template context of every page: the sample day, while the site shows it."""

from django.http import HttpRequest
from django.utils.functional import SimpleLazyObject

from webapp.papers.audit_messages import translate_reason
from webapp.papers.models import Listing, Paper


def sample(request: HttpRequest) -> dict[str, object]:
    """Return `sample` for templates: why it is shown, or None if it is not.

    Evaluated on first use.
    """
    return {"sample": SimpleLazyObject(_sample)}


def _sample() -> dict[str, object] | None:
    if not Listing.objects.filter(source=Listing.Source.SAMPLE).exists():
        return None
    failed = Listing.objects.filter(state=Listing.State.FAILED).order_by("-polled_at").first()
    return {
        "reason": translate_reason(failed.reason.rstrip(".") + ".") if failed else "",
        "fetched": Paper.objects.filter(is_sample=False, announced_on__isnull=False).count(),
    }
