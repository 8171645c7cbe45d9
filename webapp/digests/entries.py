"""Gists and method chips in the entries that hold their papers, without building a digest anew."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import date as Date
from hashlib import sha256

from django.db.models import QuerySet
from django.utils import timezone

from webapp.digests.models import Digest, DigestEntry, Profile


def take_turns(profiles: QuerySet[Profile]) -> None:
    """Wait until no digest of `profiles` is being built; hold it off until the transaction ends."""
    list(profiles.order_by("pk").select_for_update().values_list("pk"))


def put(entries: QuerySet[DigestEntry], **values: object) -> list[Date]:
    """Write `values` into `entries`; their digests become others. The days, in order.

    A few statements whatever the number of entries. Within a transaction that took its turn.
    """
    keys = list(entries.values_list("pk", "digest_id"))
    now = timezone.now()
    DigestEntry.objects.filter(pk__in=[key for key, _ in keys]).update(**values, changed_at=now)
    return touch({digest for _, digest in keys})


def touch(digests: Iterable[int]) -> list[Date]:
    """Let pages and feeds know that entries of these digests are others now. The days, in order."""
    now = timezone.now()
    changed = Digest.objects.filter(pk__in=list(digests))
    fingerprint = sha256(now.isoformat().encode()).hexdigest()
    changed.update(fingerprint=fingerprint, changed_at=now)
    return sorted(set(changed.order_by().values_list("date", flat=True)))
