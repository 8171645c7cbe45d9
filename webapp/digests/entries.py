"""Gists and method chips of digest entries, refreshed without rebuilding the digests.

A gist is one sentence of a paper's summary, a chip a method with its best figure.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from hashlib import sha256
from typing import Any

from django.db import transaction
from django.db.models import Count, Max, Min, OuterRef, Q, QuerySet, Subquery, TextField, Value
from django.db.models.functions import Coalesce
from django.utils import timezone

from webapp.digests.models import Chips, Digest, DigestEntry, Profile
from webapp.summaries.queries import shown_summaries

BATCH = 500  # entries of a transaction


def with_gists(entries: QuerySet[DigestEntry]) -> QuerySet[DigestEntry]:
    """Add the sentence of their paper's summary in their profile's language to entries."""
    shown = shown_summaries().filter(
        paper=OuterRef("paper"), language=OuterRef("digest__profile__language")
    )
    empty = Value("", TextField())
    gists: dict[str, Any] = {
        "gist": Coalesce(Subquery(shown.values("gist")[:1]), empty),
        "gist_html": Coalesce(Subquery(shown.values("gist_html")[:1]), empty),
        "summarised_at": Subquery(shown.values("finished_at")[:1]),
    }
    return entries.annotate(**gists)


# Scopes that decide which papers are summarised automatically.
SUMMARISED = ("papers", "digests", "profiles")


def papers_to_summarise(papers_a_day: int, days: int = 2) -> dict[str, list[int]]:
    """Paper ids to summarise automatically, by language: the top of the latest days' digests.

    The site's own profile first, then the latest day and the best places. Two queries.
    """
    made = Digest.objects.filter(is_sample=False).order_by("-date")
    latest = list(made.values_list("date", flat=True).distinct()[:days])
    top = DigestEntry.objects.filter(
        digest__date__in=latest,
        digest__is_sample=False,
        rank__lte=papers_a_day,
        also_mentioned=False,
    )
    each = top.values_list("digest__profile__language", "paper").annotate(
        on_site=Count("pk", filter=Q(digest__profile__is_site=True)),
        day=Max("digest__date"),
        best=Min("rank"),
    )
    by_language: dict[str, list[int]] = {}
    for language, paper, *_ in each.order_by("-on_site", "-day", "best", "paper"):
        by_language.setdefault(language, []).append(paper)
    return by_language


def papers_of_latest(papers_a_day: int, days: int = 2) -> list[int]:
    """The ids of the papers at the top of the site's latest digests, newest and best first."""
    latest = Digest.objects.filter(profile__is_site=True, is_sample=False).order_by("-date")
    shown = DigestEntry.objects.filter(digest__in=list(latest[:days]), also_mentioned=False)
    top = shown.filter(rank__lte=papers_a_day)
    return list(top.order_by("-digest__date", "rank").values_list("paper_id", flat=True))


def store_chips(chips_by_paper: dict[int, list[dict[str, str]]]) -> int:
    """Store all chips ({paper id: [{"method", "name", "figure"}]}), also in digest entries.

    A paper that is missing loses its chips. Idempotent; returns how many papers changed.
    """
    stored: dict[int, list[dict[str, str]]] = dict(Chips.objects.values_list("paper_id", "chips"))
    changed = {
        paper_id: chips_by_paper.get(paper_id, [])
        for paper_id in stored.keys() | chips_by_paper.keys()
        if stored.get(paper_id, []) != chips_by_paper.get(paper_id, [])
    }
    if not changed:
        return 0
    # In short transactions, since a paper may be in thousands of digests. Its row in `Chips` comes
    # last: whoever is stopped before starts again.
    for keys in _in_batches(_stale(changed)):
        with transaction.atomic():
            _set_chips(keys, changed)
    with transaction.atomic():
        _lock_profiles(Profile.objects.all())
        _set_chips(_stale(changed), changed)  # of digests that were built meanwhile
        Chips.objects.filter(paper_id__in=changed).delete()
        rows = [Chips(paper_id=key, chips=chips) for key, chips in changed.items() if chips]
        Chips.objects.bulk_create(rows)
    return len(changed)


Stored = dict[int, list[dict[str, str]]]


def _stale(chips: Stored) -> list[tuple[int, int, int]]:
    """Entries that show other chips: (key, paper, digest), by paper."""
    entries = DigestEntry.objects.filter(paper__in=chips).order_by("paper", "pk")
    columns = entries.values_list("pk", "paper_id", "digest_id", "chips")
    return [
        (key, paper, digest)
        for key, paper, digest, shown in columns.iterator()
        if shown != chips[paper]
    ]


def _in_batches(entries: list[tuple[int, int, int]]) -> Iterator[list[tuple[int, int, int]]]:
    for start in range(0, len(entries), BATCH):
        yield entries[start : start + BATCH]


def _set_chips(entries: Iterable[tuple[int, int, int]], chips: Stored) -> None:
    """Store the chips of these entries, and that their digests changed."""
    keys_of: dict[int, list[int]] = defaultdict(list)
    digests = set()
    for key, paper, digest in entries:
        keys_of[paper].append(key)
        digests.add(digest)
    now = timezone.now()
    for paper, keys in keys_of.items():
        DigestEntry.objects.filter(pk__in=keys).update(chips=chips[paper], changed_at=now)
    _mark_changed(digests)


def _lock_profiles(profiles: QuerySet[Profile]) -> None:
    """Keep digests of `profiles` from being built until the transaction ends."""
    list(profiles.order_by("pk").select_for_update().values_list("pk"))


def _mark_changed(digests: Iterable[int]) -> None:
    """Invalidate pages and feeds of these digests."""
    now = timezone.now()
    fingerprint = sha256(now.isoformat().encode()).hexdigest()
    changed = Digest.objects.filter(pk__in=list(digests))
    changed.update(fingerprint=fingerprint, changed_at=now)
