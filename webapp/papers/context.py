"""Template context of every page: the sample day, while the site shows it."""

from django.http import HttpRequest
from django.utils.functional import SimpleLazyObject

from webapp.papers.models import Listing, Paper


def sample(request: HttpRequest) -> dict[str, object]:
    """Return `sample` for templates: the number of real papers, or None if no sample is shown.

    Evaluated on first use.
    """
    return {"sample": SimpleLazyObject(_sample)}


def _sample() -> dict[str, object] | None:
    if not Listing.objects.filter(source=Listing.Source.SAMPLE).exists():
        return None
    real = Paper.objects.filter(is_sample=False, announced_on__isnull=False)
    return {"fetched": real.count()}
