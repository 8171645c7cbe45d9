"""Deletes the digests of days long past, and says what those of a year take on disk."""

from datetime import timedelta

from django.conf import settings
from django.db import OperationalError, connection, transaction
from django.db.models import Count, Max

from webapp.digests.models import Digest, DigestEntry, FurtherMatches
from webapp.papers.queries import rows

BATCH = 500  # digests of a transaction
DAYS_A_YEAR = 250  # on which arXiv announces papers
# What SQLite and PostgreSQL have of a table with its indexes, in bytes.
_SIZE = {
    "sqlite": "SELECT sum(pgsize) FROM dbstat WHERE name IN"
    " (SELECT name FROM sqlite_master WHERE tbl_name = %s)",
    "postgresql": "SELECT pg_total_relation_size(%s::regclass)",
}


def delete_old() -> int:
    """Delete digests ASSAY_DIGESTS_KEPT_DAYS older than the latest; how many. Papers stay.

    Idempotent; whoever is stopped goes on with the next batch.
    """
    latest = Digest.objects.aggregate(latest=Max("date"))["latest"]
    if not settings.DIGESTS_KEPT_DAYS or latest is None:
        return 0
    before = latest - timedelta(days=settings.DIGESTS_KEPT_DAYS)
    old, deleted = Digest.objects.filter(date__lt=before), 0
    while keys := list(old.order_by("date").values_list("pk", flat=True)[:BATCH]):
        with transaction.atomic():
            Digest.objects.filter(pk__in=keys).delete()
        deleted += len(keys)
    return deleted


def bytes_a_year() -> tuple[int, int] | None:
    """What a year of digests takes on disk, by those that are stored: in all, and for a profile.

    None where SQLite was built without the table that tells it (dbstat).
    """
    stored = Digest.objects.aggregate(digests=Count("pk"), profiles=Count("profile", distinct=True))
    if not stored["digests"]:
        return 0, 0
    tables = [model._meta.db_table for model in (Digest, DigestEntry, FurtherMatches)]
    try:
        size = sum(rows(_SIZE[connection.vendor], [table])[0][0] or 0 for table in tables)
    except OperationalError:
        return None
    each = DAYS_A_YEAR * size // stored["digests"]
    return each * stored["profiles"], each
