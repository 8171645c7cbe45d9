"""The daily update: fetch from arXiv, then build the digests of every day that changed.

These are two tasks, so that readers' look-ups at arXiv do not wait for the digests of a day. The
days to be built are stored in the database: after an interruption the next call continues with the
next day.
"""

from collections.abc import Iterable, Sequence
from datetime import date, timedelta
from itertools import chain

from django.conf import settings
from django.db import transaction
from django.utils import timezone

from webapp.core.revisions import once, pending, settle
from webapp.digests.batch import ENTRY_FORMAT, FEW
from webapp.digests.build import build
from webapp.digests.models import DayToBuild, Digest, Profile
from webapp.digests.profiles.keyword_frequencies import recount_stale_frequencies
from webapp.papers import queries, sample, schedule
from webapp.papers.days import eastern_date, now
from webapp.papers.identifiers import category_in, known_categories
from webapp.papers.polling import FetchReport
from webapp.papers.schedule import Progress
from webapp.papers.store import remove_sample

RECENT = 3  # days
URGENT = timedelta(minutes=5)  # for which work of the same queue makes way for a build
BUILD = "build"  # the work that waits for profiles that have changed


def categories_to_fetch() -> list[str]:
    """Every category in the settings or a profile, each once."""
    of_profiles = Profile.objects.order_by("pk").values_list("categories", flat=True)
    # Invalid names, stored before they were refused, must not stop the fetch of all others.
    valid = known_categories(chain.from_iterable(of_profiles))
    configured = [category_in(name) or name for name in settings.ARXIV_CATEGORIES]
    return list(dict.fromkeys([*configured, *valid]))


def fetch(
    categories: Sequence[str],
    since: date | None = None,
    on_progress: Progress = lambda done, total, step: None,
) -> FetchReport:
    """Fetch what is new or was missed, and ask for the digests it affects.

    Until a day of arXiv's has a paper for the site's own list, the sample day is shown. The last
    days are always asked for, since a process may have died between a batch and this.
    Raises ValueError for a name that cannot be a category.
    """
    report = schedule.fetch(categories, since, on_progress)
    if report.failed:
        report.dates.update(sample.load_sample(report.reason).dates)
    ask_for({*report.dates, *queries.dates(RECENT)})
    return report


def ask_for(dates: Iterable[date]) -> None:
    """Have the digests of these days built."""
    DayToBuild.objects.bulk_create(
        [DayToBuild(date=day, asked_at=timezone.now()) for day in sorted(dates)],
        update_conflicts=True,
        unique_fields=["date"],
        update_fields=["asked_at"],
    )


def build_waits() -> bool:
    """True if a build was requested lately; one that keeps failing blocks nothing."""
    return DayToBuild.objects.filter(asked_at__gte=timezone.now() - URGENT).exists()


def build_asked() -> list[date]:
    """Build the digests of the days that were asked for, if what they are made of has changed.

    Where the papers have not changed, only profiles that have are read. Returns these days.
    """
    days = dict(DayToBuild.objects.order_by("date").values_list("date", "asked_at"))
    if not days:
        return []

    def built(day: date) -> None:
        if day in days:  # or a later one with the same papers; what is asked for again stays
            DayToBuild.objects.filter(date=day, asked_at=days[day]).delete()

    def build_all() -> tuple[int, bool]:
        build(days, on_built=built)
        return len(days), True

    recount_stale_frequencies(eastern_date(now()))
    waiting = pending(BUILD)
    if "" in waiting or len(waiting) > FEW:
        build_all()
    elif not once(BUILD, ("papers", "listings"), build_all, ENTRY_FORMAT, *days) and waiting:
        build(days, Profile.objects.filter(pk__in=waiting))
    settle(wait for waits in waiting.values() for wait in waits)
    for day in days:
        built(day)
    _retire_sample()
    return list(days)


def _retire_sample() -> None:
    """Remove the sample day once a day of arXiv's has a paper for the site's own list."""
    real = Digest.objects.filter(profile__is_site=True, is_sample=False, matched__gt=0)
    if sample.sample_days() and real.exists():
        with transaction.atomic():
            remove_sample()
            Digest.objects.filter(is_sample=True).delete()


def update(
    categories: Sequence[str],
    since: date | None = None,
    on_progress: Progress = lambda done, total, step: None,
) -> FetchReport:
    """Fetch, and build at once what was asked for. Raises as `fetch`."""
    report = fetch(categories, since, on_progress)
    build_asked()
    return report
