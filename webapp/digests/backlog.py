"""A profile's best papers since a day, of all that are stored."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date as Date
from typing import Any

from django.utils import timezone

from webapp.digests.batch import Day
from webapp.digests.build import rows_of
from webapp.digests.models import BestSince, Digest, Profile
from webapp.digests.profiles.validation import rules_of
from webapp.digests.scoring.scorer import Kept, Scorer, Standing, in_order
from webapp.papers.models import AnnounceType, Paper
from webapp.papers.queries import Announced

Progress = Callable[[int, int], object]  # gets the number of papers scored, and their total
CHUNK = 5_000  # papers in memory at a time
READ = ("arxiv_id", "version", "title", "abstract", "categories", "submitted_at", "authors")


@dataclass(frozen=True)
class Backlog:
    """The best papers since a day, as FurtherMatches has them, and the time it took.

    `digest`, which is not stored, has the number of papers that were considered and that matched.
    """

    digest: Digest
    rows: list[dict[str, Any]]
    reading_seconds: float
    scoring_seconds: float


def score_since(profile: Profile, since: Date, on_progress: Progress) -> Backlog:
    """Score every paper announced since a day; the best, as many as the profile shows in a day.

    Each counts as new in its own categories. Raises ProfileError for an invalid profile.
    """
    rules = rules_of(profile)
    scorer = Scorer([rules])
    stored = Paper.objects.filter(announced_on__gte=since).order_by()
    # By keys, not by an open cursor: SQLite refuses a write, such as that of the progress, to a
    # connection that reads what others have changed since.
    keys = list(stored.values_list("pk", flat=True))
    best: list[Announced] = []
    scored: list[Kept] = []
    digest = Digest(profile=profile, date=since)
    scoring, began = 0.0, time.perf_counter()
    for start in range(0, len(keys), CHUNK):
        papers = Paper.objects.filter(pk__in=keys[start : start + CHUNK]).only(*READ)
        chunk = Day(since, [_as_new(paper) for paper in papers])
        candidates = chunk.candidates
        read = time.perf_counter()
        kept = [paper for paper in scorer.kept(candidates)[0] if paper.standing is Standing.ABOUT]
        digest.matched += len(kept)
        digest.considered += chunk.considered(rules)
        # Rank the best so far again with the best of these, so that memory holds no more than both.
        ranked = in_order(rules, kept, candidates)[: rules.size]
        contenders = Day(since, [*best, *(chunk.announced[paper.at] for paper in ranked)])
        scored = [paper._replace(at=at) for at, paper in enumerate([*scored, *ranked])]
        scored = in_order(rules, scored, contenders.candidates)[: rules.size]
        best = [contenders.announced[paper.at] for paper in scored]
        scoring += time.perf_counter() - read
        on_progress(start + len(candidates), len(keys))
    reading = time.perf_counter() - began - scoring
    day = Day(since, best)
    rows = rows_of(day, (paper._replace(at=at) for at, paper in enumerate(scored)), scorer, 0)
    return Backlog(digest, rows, reading, scoring)


def _as_new(paper: Paper) -> Announced:
    return Announced(paper, AnnounceType.NEW, paper.version, tuple(paper.categories))


def store_best(profile_id: int) -> bool:
    """Run a profile's pending search and store its progress and result; whether it was stored.

    Idempotent: a search that has ended is not repeated.
    """
    asked = BestSince.objects.select_related("profile").filter(profile=profile_id, ended_at=None)
    found = asked.first()
    if found is None:
        return False
    mine = asked.filter(asked_at=found.asked_at)  # a new request meanwhile gets no old result

    def on_progress(done: int, of: int) -> None:
        mine.update(scored=done, total=of, heard_at=timezone.now())

    backlog = score_since(found.profile, found.since, on_progress)
    return bool(
        mine.update(
            rows=backlog.rows,
            matched=backlog.digest.matched,
            reading_seconds=backlog.reading_seconds,
            scoring_seconds=backlog.scoring_seconds,
            ended_at=timezone.now(),
        )
    )
