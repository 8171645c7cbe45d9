"""Retention of digests: old ones are packed, very old ones deleted, and their size estimated.

Readers look into a digest for a month: the papers it showed, the reasons for each, the matches
beyond its size. After that it is a page of the archive. A large site has thousands of readers'
digests a day, so old ones are stored as one compressed row each, at a seventh of the size. The
site's own digests are not packed.
"""

from collections import defaultdict
from collections.abc import Collection
from datetime import timedelta
from typing import Any

from django.conf import settings
from django.db import OperationalError, connection, transaction
from django.db.models import Count, Max, Q, Sum
from django.db.models.functions import Length

from webapp.digests.models import Digest, DigestEntry, FurtherMatches, Profile
from webapp.papers.queries import rows

BATCH = 500  # digests that are looked up, or deleted in a transaction
TOGETHER = 100  # digests that are packed in a transaction
WHOLE_DAYS = 28  # before the latest digest, after which those of readers are packed
DAYS_A_YEAR = 250  # on which arXiv announces papers
# Of an entry.
PACKED = ("paper", "score", "also_mentioned", "announce_type", "version", "matches")
# Queries for the size of a table with its indexes, in bytes.
_SIZE = {
    "sqlite": "SELECT sum(pgsize) FROM dbstat WHERE name IN"
    " (SELECT name FROM sqlite_master WHERE tbl_name = %s)",
    "postgresql": "SELECT pg_total_relation_size(%s::regclass)",
}


def delete_old() -> int:
    """Delete digests ASSAY_DIGESTS_KEPT_DAYS older than the latest, and return their number.

    Papers stay. Idempotent; after an interruption the next call continues.
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


def pack_old() -> int:
    """Pack readers' digests WHOLE_DAYS older than the latest, and return their number.

    No page loses an entry. Idempotent, with a short transaction for every TOGETHER digests; after
    an interruption the next call continues.
    """
    latest = Digest.objects.aggregate(latest=Max("date"))["latest"]
    if latest is None:
        return 0
    old = DigestEntry.objects.filter(
        digest__date__lt=latest - timedelta(days=WHOLE_DAYS), digest__profile__is_site=False
    )
    packed = 0
    while keys := list(old.order_by("digest").values_list("digest", flat=True).distinct()[:BATCH]):
        for start in range(0, len(keys), TOGETHER):
            pack(keys[start : start + TOGETHER])
        packed += len(keys)
    return packed


def pack(digests: Collection[int]) -> None:
    """Store the entries of each digest as one row, unless another process has done so meanwhile."""
    with transaction.atomic():
        # As a builder of their profiles does: it may be at work.
        list(
            Profile.objects.filter(digests__in=digests)
            .order_by("pk")
            .select_for_update(of=("self",))
            .values_list("pk")
        )
        rows_of: dict[int, list[dict[str, Any]]] = defaultdict(list)
        entries = DigestEntry.objects.filter(digest__in=digests).order_by("digest", "rank")
        for entry in entries.values("digest", *PACKED):
            rows_of[entry.pop("digest")].append(entry)
        FurtherMatches.objects.bulk_create(
            [FurtherMatches(digest_id=digest, rows=rows) for digest, rows in rows_of.items()],
            update_conflicts=True,
            unique_fields=["digest"],
            update_fields=["rows"],
        )
        DigestEntry.objects.filter(digest__in=rows_of.keys()).delete()


def bytes_a_year() -> tuple[int, int] | None:
    """Estimate the disk space of a year of digests from those stored: in total and per profile.

    None if SQLite was built without the dbstat table.
    """
    stored = Digest.objects.aggregate(digests=Count("pk"), profiles=Count("profile", distinct=True))
    if not (digests := stored["digests"]):
        return 0, 0
    try:
        of_digest, of_entries, of_rows = (
            rows(_SIZE[connection.vendor], [model._meta.db_table])[0][0] or 0
            for model in (Digest, DigestEntry, FurtherMatches)
        )
    except OperationalError:
        return None
    with_entries = DigestEntry.objects.values("digest")
    whole = Digest.objects.filter(pk__in=with_entries).count()
    packed = digests - whole
    # Both kinds of rows are in one table, which they share by their length.
    lengths = FurtherMatches.objects.aggregate(
        every=Sum(Length("rows")), whole=Sum(Length("rows"), filter=Q(digest__in=with_entries))
    )
    share = (lengths["whole"] or 0) / lengths["every"] if lengths["every"] else 1.0
    days = round(DAYS_A_YEAR * WHOLE_DAYS / 365) if packed else DAYS_A_YEAR
    a_year = DAYS_A_YEAR * of_digest / digests
    a_year += days * (of_entries + share * of_rows) / max(whole, 1)
    a_year += (DAYS_A_YEAR - days) * (1 - share) * of_rows / max(packed, 1)
    return round(a_year * stored["profiles"]), round(a_year)
