"""What every page must say: that it shows the sample, while it does."""

from django.http import HttpRequest
from django.utils.functional import SimpleLazyObject

from webapp.papers.models import Listing


def sample(request: HttpRequest) -> dict[str, object]:
    """`sample` for templates: `{"reason": the last word of arXiv on why nothing better is shown}`.

    None as soon as real days are there. Asked when first used.
    """
    return {"sample": SimpleLazyObject(_sample)}


def _sample() -> dict[str, str] | None:
    if not Listing.objects.filter(source=Listing.Source.SAMPLE).exists():
        return None
    failed = Listing.objects.filter(state=Listing.State.FAILED).order_by("-polled_at").first()
    return {"reason": failed.reason.rstrip(".") + "." if failed else ""}
