"""What entries of digests show of summaries and methods, without rebuilding the digests.

A gist is one sentence of a paper's summary, a chip a method with its best figure.
"""

from collections.abc import Iterable
from hashlib import sha256
from typing import Any

from django.db import transaction
from django.db.models import Count, Max, Min, OuterRef, Q, QuerySet, Subquery, TextField, Value
from django.db.models.functions import Coalesce
from django.utils import timezone

from webapp.digests.models import Chips, Digest, DigestEntry, Profile
from webapp.summaries.queries import shown_summaries


def with_gists(entries: QuerySet[DigestEntry]) -> QuerySet[DigestEntry]:
    """Add the sentence of their paper's summary in their profile's language to entries."""
    shown = shown_summaries().filter(
        paper=OuterRef("paper"), language=OuterRef("digest__profile__language")
    )
    empty = Value("", TextField())
    told: dict[str, Any] = {
        "gist": Coalesce(Subquery(shown.values("gist")[:1]), empty),
        "gist_html": Coalesce(Subquery(shown.values("gist_html")[:1]), empty),
        "summarised_at": Subquery(shown.values("finished_at")[:1]),
    }
    return entries.annotate(**told)


# What decides which papers are summarised automatically.
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
    wanted: dict[str, list[int]] = {}
    for language, paper, *_ in each.order_by("-on_site", "-day", "best", "paper"):
        wanted.setdefault(language, []).append(paper)
    return wanted


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
    with transaction.atomic():
        _lock_profiles(Profile.objects.all())
        Chips.objects.filter(paper_id__in=changed).delete()
        rows = [Chips(paper_id=key, chips=chips) for key, chips in changed.items() if chips]
        Chips.objects.bulk_create(rows)
        shown = list(DigestEntry.objects.filter(paper__in=changed))
        now = timezone.now()
        for entry in shown:
            entry.chips, entry.changed_at = changed[entry.paper_id], now
        DigestEntry.objects.bulk_update(shown, ["chips", "changed_at"], batch_size=500)
        _mark_changed({entry.digest_id for entry in shown})
    return len(changed)


def _lock_profiles(profiles: QuerySet[Profile]) -> None:
    """Keep digests of `profiles` from being built until the transaction ends."""
    list(profiles.order_by("pk").select_for_update().values_list("pk"))


def _mark_changed(digests: Iterable[int]) -> None:
    """Invalidate pages and feeds of these digests."""
    now = timezone.now()
    fingerprint = sha256(now.isoformat().encode()).hexdigest()
    changed = Digest.objects.filter(pk__in=list(digests))
    changed.update(fingerprint=fingerprint, changed_at=now)
