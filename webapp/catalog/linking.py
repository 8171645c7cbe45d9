"""Links from papers to methods in the database, by the current evidence."""

import time
from datetime import UTC, datetime
from functools import cache
from hashlib import sha256
from operator import attrgetter
from typing import Any

from django.db import transaction
from django.db.models import F, Max, Q, QuerySet
from django.utils import timezone

from methods import registry
from webapp.catalog import evidence
from webapp.catalog.evidence import RelationAnswer
from webapp.catalog.models import LinkingState, MethodLink
from webapp.learning.tfidf import DATA
from webapp.papers.models import Listing, Paper
from webapp.summaries.models import FullText, Summary

BATCH = 500
RELINK_SECONDS = 20.0  # of each minute, so that a day's digests do not wait for older papers
CHANGEABLE = ("relation", "score", "evidence")  # fields of a link
_NEVER = datetime(1970, 1, 1, tzinfo=UTC)


@cache
def fingerprint() -> str:
    """A digest of everything that decides links: families, identifiers, weights."""
    digest = sha256()
    for method in registry.all_methods():
        digest.update(repr((method.slug, method.papers, method.family)).encode())
    for path in sorted(DATA.glob("*.json")):
        digest.update(path.read_bytes())
    return digest.hexdigest()


def link_new() -> int:
    """Link the papers added since the last call; return the number of links changed.

    If the methods have changed, all papers are linked again, the latest first, for RELINK_SECONDS
    in each call; after an interruption the next call continues.
    """
    state = LinkingState.objects.filter(pk=1, fingerprint=fingerprint()).first() or _begin()
    return _link_announced(state) + _relink()


def _begin() -> LinkingState:
    """Have all papers that there are now linked anew."""
    last = Paper.objects.aggregate(last=Max("pk"))["last"]
    values = {
        "fingerprint": fingerprint(),
        "linked_until": _latest(Listing.objects.all(), "changed_at") or timezone.now(),
        "answered_until": _latest(_answered(), "finished_at"),
        "relinking_below": None if last is None else last + 1,
    }
    return LinkingState.objects.update_or_create(pk=1, defaults=values)[0]


def _link_announced(state: LinkingState) -> int:
    """Link the papers whose announcements or summaries are new."""
    listings = Listing.objects.filter(changed_at__gt=state.linked_until)
    summaries = _answered()
    if state.answered_until:
        summaries = summaries.filter(finished_at__gt=state.answered_until)
    values = {
        "linked_until": _latest(listings, "changed_at"),
        "answered_until": _latest(summaries, "finished_at"),
    }
    values = {name: value for name, value in values.items() if value}
    if not values:
        return 0
    announced = Q(announcements__listing__in=listings)
    changed = link(Paper.objects.filter(announced | Q(summaries__in=summaries)).distinct())
    LinkingState.objects.filter(pk=1, fingerprint=state.fingerprint).update(**values)
    return changed


def _answered() -> QuerySet[Summary]:
    return Summary.objects.filter(state=Summary.State.DONE)


def _latest(rows: QuerySet[Any], column: str) -> Any:
    return rows.aggregate(latest=Max(column))["latest"]


def _relink() -> int:
    """Go on linking all papers anew; how many links changed."""
    changed, end = 0, time.monotonic() + RELINK_SECONDS
    mine = LinkingState.objects.filter(pk=1, fingerprint=fingerprint())
    while below := mine.values_list("relinking_below", flat=True).first():
        papers = list(Paper.objects.filter(pk__lt=below).order_by("-pk")[:BATCH])
        with transaction.atomic():
            changed += _write(papers)
            reached = papers[-1].pk if papers else None
            mine.filter(relinking_below=below).update(relinking_below=reached)
        if time.monotonic() > end:
            break
    return changed


def relinking() -> tuple[int, int] | None:
    """While all papers are linked anew: how many are, and of how many."""
    below = LinkingState.objects.values_list("relinking_below", flat=True).first()
    if not below:
        return None
    total = Paper.objects.count()
    return total - Paper.objects.filter(pk__lt=below).count(), total


def link(papers: QuerySet[Paper]) -> int:
    """Write the links of `papers` as they are now; how many changed. Idempotent.

    Keys first: SQLite refuses to write on a connection whose open query began before another
    process wrote.
    """
    changed, keys = 0, list(papers.values_list("pk", flat=True))
    for start in range(0, len(keys), BATCH):
        with transaction.atomic():
            changed += _write(list(Paper.objects.filter(pk__in=keys[start : start + BATCH])))
    return changed


def note_change() -> None:
    """Invalidate kept pages: links have changed."""
    LinkingState.objects.update_or_create(
        pk=1,
        defaults={"changed_at": timezone.now()},
        create_defaults={"linked_until": _NEVER, "fingerprint": ""},
    )


def _write(papers: list[Paper]) -> int:
    old = {(row.paper_id, row.method): row for row in MethodLink.objects.filter(paper__in=papers)}
    answers = _answers(papers)
    new = {
        (paper.pk, link.method): MethodLink(paper=paper, **vars(link))
        for paper in papers
        for link in evidence.links(
            paper.arxiv_id,
            paper.title,
            f"{paper.abstract}\n{paper.comment}".strip(),
            *answers.get(paper.pk, ((), "")),
        )
    }
    gone = [row.pk for key, row in old.items() if key not in new and row.confirmed is None]
    values = attrgetter(*CHANGEABLE)
    written = [row for key, row in new.items() if key not in old or values(old[key]) != values(row)]
    # Unless an operator has decided on one in the meantime.
    MethodLink.objects.filter(pk__in=gone, confirmed=None).delete()
    MethodLink.objects.bulk_create(
        written, update_conflicts=True, unique_fields=["paper", "method"], update_fields=CHANGEABLE
    )
    if gone or written:
        note_change()
    return len(gone) + len(written)


def _answers(papers: list[Paper]) -> dict[int, tuple[tuple[RelationAnswer, ...], str]]:
    """The relations that a model answered, with the text that it had read."""
    latest = Q(version=F("paper__version"))
    done = Summary.objects.filter(latest, paper__in=papers, state=Summary.State.DONE, withheld="")
    by_paper = {
        row.paper_id: tuple(
            RelationAnswer(**relation) for relation in row.content.get("relations", ())
        )
        for row in done.order_by("finished_at")
    }
    answered = [key for key, answers in by_paper.items() if answers]
    texts = FullText.objects.filter(latest, paper__in=answered)
    read = {row.paper_id: row.text for row in texts}
    return {key: (answers, read.get(key, "")) for key, answers in by_paper.items()}
