"""A reader's limits: how many runs at once, how much device time a day, which methods."""

from django.conf import settings
from django.contrib.auth.models import User
from django.db.models import Sum
from django.utils import timezone
from django.utils.translation import gettext as _

from methods.spec import InputError
from webapp.runs.models import OPEN, MethodAccess, Run
from webapp.runs.times import span

RUNNING, QUEUED = 1, 3  # per reader


class QuotaError(InputError):
    """A run that exceeds a limit; the message says why and what to do."""


def seconds_left(reader: User) -> int:
    """Device time that a new run of `reader` may still reserve today (UTC), in seconds.

    Runs that have not ended reserve their limit.
    """
    today = Run.objects.filter(reader=reader, charged_on=timezone.now().date())
    used: int = today.aggregate(used=Sum("charged_seconds", default=0))["used"]
    return max(0, settings.RUN_MINUTES_A_DAY * 60 - used)


def may_run(reader: User, method: str) -> bool:
    """Whether `reader` may run `method`: anyone may, unless it is restricted to groups."""
    kept = MethodAccess.objects.filter(method=method).first()
    if kept is None or reader.is_superuser:
        return True
    return kept.groups.filter(pk__in=reader.groups.values("pk")).exists()


def admit(reader: User, method: str, seconds: int) -> None:
    """Raise QuotaError unless `reader` may now run `method` for `seconds`.

    The caller has locked the reader's row, so concurrent requests count each other.
    """
    if not may_run(reader, method):
        closed = _("Only readers in groups chosen by the administrator may run %s.")
        raise QuotaError(closed % method)
    open_runs = Run.objects.filter(reader=reader, state__in=OPEN).count()
    if open_runs >= RUNNING + QUEUED:
        most = _("You have %d runs waiting or running, which is the limit. Wait, or cancel one.")
        raise QuotaError(most % open_runs)
    left = seconds_left(reader)
    if seconds > left:
        spent = _(
            "This run may take up to %(time)s, and %(left)s of today’s %(minutes)d min are left. "
            "Choose a smaller preset, or try again after midnight UTC."
        )
        minutes = settings.RUN_MINUTES_A_DAY
        raise QuotaError(spent % {"time": span(seconds), "left": span(left), "minutes": minutes})
