"""A profile over every paper that is stored: what it would have shown from a day on, best first."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date as Date

from django.utils import timezone

from webapp.digests.batch import Batch, candidate_of
from webapp.digests.build import entries_of
from webapp.digests.models import BestSince, Digest, DigestEntry, Profile
from webapp.digests.profiles.validation import rules_of
from webapp.digests.queries import MATCH
from webapp.digests.scoring.scorer import Candidate, Scorer, in_order
from webapp.papers.models import AnnounceType, Paper
from webapp.papers.queries import Announced

CHUNK = 5_000  # papers held at a time
SCORED = ("arxiv_id", "title", "abstract", "categories", "submitted_at", "authors")


@dataclass(frozen=True)
class Backlog:
    """The best papers since a day as a digest, not stored, and what finding them took."""

    digest: Digest
    entries: list[DigestEntry]
    reading_seconds: float
    scoring_seconds: float


def score_since(
    profile: Profile, since: Date, on_progress: Callable[[int, int], object] = lambda done, of: None
) -> Backlog:
    """Score every paper announced since a day by a profile's rules; the best, as many as it shows.

    Each counts as announced anew in its own categories. `on_progress` learns how many papers were
    scored, of how many. Raises ProfileError for a profile that cannot be read.
    """
    rules = rules_of(profile)
    scorer = Scorer([rules])
    stored = Paper.objects.filter(announced_on__gte=since).order_by()
    # By their keys, not by an open cursor: whoever tells how far it is writes meanwhile, which
    # SQLite refuses to a connection that reads what others have changed since.
    keys = list(stored.values_list("pk", flat=True))
    best: list[Candidate] = []
    digest = Digest(profile=profile, date=since)
    scoring, began = 0.0, time.perf_counter()
    for start in range(0, len(keys), CHUNK):
        papers = Paper.objects.filter(pk__in=keys[start : start + CHUNK]).only(*SCORED)
        chunk = [candidate_of(one, one.categories, AnnounceType.NEW) for one in papers]
        read = time.perf_counter()
        kept = scorer.kept(chunk)[0]
        digest.matched += len(kept)
        digest.considered += sum(rules.admits(one.categories, one.announce_type) for one in chunk)
        # The best so far are ranked again with the new: memory holds no more than both.
        contenders = [*best, *(chunk[one.at] for one in kept)]
        ranked = in_order(rules, scorer.kept(contenders)[0], contenders)[: rules.size]
        best = [contenders[one.at] for one in ranked]
        scoring += time.perf_counter() - read
        on_progress(start + len(chunk), len(keys))
    reading = time.perf_counter() - began - scoring
    papers_of = Paper.objects.in_bulk([one.id for one in best], field_name="arxiv_id")
    announced = [
        Announced(paper, AnnounceType.NEW, paper.version, tuple(paper.categories))
        for paper in (papers_of[one.id] for one in best)
    ]
    day = Batch(since, announced)
    entries = entries_of(day, scorer.kept(best)[0], scorer, 0)
    return Backlog(digest, entries, reading, scoring)


def store_best(profile_id: int) -> bool:
    """Look for what was asked for of a profile, telling how far it is; whether it was stored.

    Idempotent: what has ended is not looked for again.
    """
    asked = BestSince.objects.select_related("profile").filter(profile=profile_id, ended_at=None)
    found = asked.first()
    if found is None:
        return False
    mine = asked.filter(asked_at=found.asked_at)

    def on_progress(done: int, of: int) -> None:
        mine.update(scored=done, total=of, heard_at=timezone.now())

    backlog = score_since(found.profile, found.since, on_progress)
    rows = [
        {"paper": one.paper.pk, **{name: getattr(one, name) for name in MATCH}}
        for one in backlog.entries
    ]
    return bool(
        mine.update(
            rows=rows,
            matched=backlog.digest.matched,
            reading_seconds=backlog.reading_seconds,
            scoring_seconds=backlog.scoring_seconds,
            ended_at=timezone.now(),
        )
    )
