"""A profile over every paper that is stored: what it would have shown from a day on, best first."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date as Date
from itertools import islice

from webapp.digests.batch import Batch, candidate_of
from webapp.digests.build import entries_of
from webapp.digests.models import Digest, DigestEntry, Profile
from webapp.digests.profiles.validation import rules_of
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
    profile: Profile, since: Date, on_progress: Callable[[int], None] = lambda count: None
) -> Backlog:
    """Score every paper announced since a day by a profile's rules; the best, as many as it shows.

    Each counts as announced anew in its own categories. `on_progress` learns how many papers were
    scored. Raises ProfileError for a profile that cannot be read.
    """
    rules = rules_of(profile)
    scorer = Scorer([rules])
    stored = Paper.objects.filter(announced_on__gte=since).order_by().only(*SCORED)
    rows = stored.iterator(CHUNK)
    papers = (candidate_of(one, one.categories, AnnounceType.NEW) for one in rows)
    best: list[Candidate] = []
    digest = Digest(profile=profile, date=since)
    scoring, began = 0.0, time.perf_counter()
    while chunk := list(islice(papers, CHUNK)):
        read = time.perf_counter()
        kept = scorer.kept(chunk)[0]
        digest.matched += len(kept)
        digest.considered += sum(rules.admits(one.categories, one.announce_type) for one in chunk)
        # The best so far are ranked again with the new: memory holds no more than both.
        contenders = [*best, *(chunk[one.at] for one in kept)]
        ranked = in_order(rules, scorer.kept(contenders)[0], contenders)[: rules.size]
        best = [contenders[one.at] for one in ranked]
        scoring += time.perf_counter() - read
        on_progress(len(chunk))
    reading = time.perf_counter() - began - scoring
    papers_of = Paper.objects.in_bulk([one.id for one in best], field_name="arxiv_id")
    announced = [
        Announced(paper, AnnounceType.NEW, paper.version, tuple(paper.categories))
        for paper in (papers_of[one.id] for one in best)
    ]
    day = Batch(since, announced)
    entries = entries_of(day, scorer.kept(best)[0], scorer, 0)
    return Backlog(digest, entries, reading, scoring)
