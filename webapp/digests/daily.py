"""The daily update: arXiv in, then the digests of every day that changed."""

from collections.abc import Sequence
from datetime import date
from itertools import chain

from django.conf import settings

from webapp.digests.build import build
from webapp.digests.models import Profile
from webapp.digests.profiles.keyword_frequencies import recount_stale_frequencies
from webapp.papers import queries, sample, schedule
from webapp.papers.days import eastern_date, now
from webapp.papers.polling import FetchReport
from webapp.papers.schedule import Progress

RECENT = 3  # days


def categories_to_fetch() -> list[str]:
    """Every category that the settings or a profile ask for, each once."""
    of_profiles = Profile.objects.order_by("pk").values_list("categories", flat=True)
    return list(dict.fromkeys([*settings.ARXIV_CATEGORIES, *chain.from_iterable(of_profiles)]))


def update(
    categories: Sequence[str],
    since: date | None = None,
    on_progress: Progress = lambda done, total, step: None,
) -> FetchReport:
    """Fetch what is new or was missed and rebuild the digests that it bears on.

    While arXiv was never reached the sample day is shown. The last days are built whatever came:
    a process that died between a batch and its digests leaves nothing to notice otherwise.
    Raises ValueError for a name that cannot be a category.
    """
    report = schedule.fetch(categories, since, on_progress)
    if report.failed:
        report.dates.update(sample.load_sample(report.reason).dates)
    recount_stale_frequencies(eastern_date(now()))
    build(sorted({*report.dates, *queries.dates(RECENT)}))
    return report
