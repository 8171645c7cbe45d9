"""Compresses the logs of runs that ended; deletes runs after the configured time, and sessions."""

import zlib
from datetime import timedelta

from django.conf import settings
from django.core.management import call_command
from django.db import transaction
from django.utils import timezone

from webapp.runs.models import ENDED, Event, Run, RunLog, Series
from webapp.runs.queries import log_of

# A worker may still send log events for some time after its run has ended.
SETTLED = timedelta(hours=1)
BATCH = 200  # runs


def tidy() -> tuple[int, int]:
    """Compress logs of ended runs and delete runs older than ASSAY_RUNS_KEPT_DAYS; both counts.

    Expired sessions are deleted, too. A run with a standing measurement, or published with a result
    file, is kept for ever. Idempotent; each log is a transaction of its own, so others do not wait
    for long.
    """
    call_command("clearsessions")
    return _compress_logs(), _delete_old()


def _compress_logs() -> int:
    ended = Run.objects.filter(state__in=ENDED, finished_at__lt=timezone.now() - SETTLED)
    with_log = ended.filter(log_bytes__gt=0, log__isnull=True)
    keys = list(with_log.order_by("finished_at").values_list("pk", flat=True))
    for key in keys:
        with transaction.atomic():
            run = Run.objects.select_for_update().get(pk=key)
            piece = zlib.compress(log_of(run).encode(), 9)
            RunLog.objects.get_or_create(run=run, defaults={"compressed": piece})
            Event.objects.filter(run=run, kind="log").delete()
    return len(keys)


def _delete_old() -> int:
    days = settings.RUNS_KEPT_DAYS
    if not days:
        return 0
    before = timezone.now() - timedelta(days=days)
    standing = Series.objects.filter(standing__isnull=False).values("run")
    old = Run.objects.filter(state__in=ENDED, imported=False, finished_at__lt=before)
    keys = list(old.exclude(pk__in=standing).values_list("pk", flat=True))
    for start in range(0, len(keys), BATCH):
        Run.objects.filter(pk__in=keys[start : start + BATCH]).delete()
    return len(keys)
