"""The daily update: fetch from arXiv, then build the digests of every day that changed."""

from collections.abc import Sequence
from datetime import date
from itertools import chain

from django.conf import settings

from webapp.digests.build import build
from webapp.digests.models import Profile
from webapp.digests.profiles.keyword_frequencies import recount_stale_frequencies
from webapp.papers import queries, sample, schedule
from webapp.papers.days import eastern_date, now
from webapp.papers.identifiers import category_names
from webapp.papers.polling import FetchReport
from webapp.papers.schedule import Progress

RECENT = 3  # days


def categories_to_fetch() -> list[str]:
    """Every category in the settings or a profile, each once."""
    of_profiles = Profile.objects.order_by("pk").values_list("categories", flat=True)
    # Invalid names, stored before they were refused, must not stop the fetch of all others.
    valid = category_names(chain.from_iterable(of_profiles))
    return list(dict.fromkeys([*settings.ARXIV_CATEGORIES, *valid]))


def update(
    categories: Sequence[str],
    since: date | None = None,
    on_progress: Progress = lambda done, total, step: None,
) -> FetchReport:
    """Fetch what is new or was missed and rebuild the digests it affects.

    Until arXiv is reached for the first time, the sample day is shown. The last days are always
    built, since a process may have died between a batch and its digests.
    Raises ValueError for a name that cannot be a category.
    """
    report = schedule.fetch(categories, since, on_progress)
    if report.failed:
        report.dates.update(sample.load_sample(report.reason).dates)
    recount_stale_frequencies(eastern_date(now()))
    build(sorted({*report.dates, *queries.dates(RECENT)}))
    return report
