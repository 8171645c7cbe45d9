"""Inverted index of TF-IDF vectors: the papers that share a paper's heaviest terms.

Each paper is indexed under its TERMS strongest terms only, and each term's papers are stored by
weight (static pruning and impact order: Manning, Raghavan and Schütze, "Introduction to Information
Retrieval", 2008, sections 7.1.3 and 7.1.5). So the cost of a lookup does not grow with the number
of papers, and the nearest papers are found whatever their day. Blocks of consecutive papers are
indexed in the background, the latest first; only the last block is ever rebuilt.
"""

import time
from collections import defaultdict
from functools import cache
from hashlib import sha256
from heapq import nlargest
from struct import pack, unpack
from typing import Any

from django.db import transaction
from django.db.models import Max, QuerySet, Subquery
from django.db.models.functions import Coalesce

from webapp.learning.models import PostingsBlock, TermPostings
from webapp.learning.tfidf import DATA, Vector, vector
from webapp.papers.models import Paper

TERMS = 16  # of a paper that it stands under
SOUGHT = 24  # of a paper that others are sought by
BLOCK = 1 << 14  # papers: their places fit in two bytes
READ = 2_000  # papers of a term that a lookup reads, the heaviest of each block
SCALE = 255  # of weights, which are 0 to 1


def nearest(mine: Vector, limit: int) -> list[int]:
    """Keys of at most `limit` papers with the largest inner product, a later one first of equals.

    Papers whose block is not made yet are among `waiting`. Two queries.
    """
    last = PostingsBlock.objects.aggregate(block=Max("block"))["block"]
    if last is None:
        return []
    each = -(-READ // (last + 1))
    points: dict[int, float] = defaultdict(float)
    terms = nlargest(SOUGHT, mine, key=lambda term: (mine[term], term))
    rows = TermPostings.objects.filter(term__in=terms).values_list("term", "block", "values")
    for term, block, values in rows:
        factor, first, count = mine[term], block * BLOCK, len(values) // 3
        read = min(count, each)
        places = unpack(f"<{read}H", values[: 2 * read])
        for place, weight in zip(places, values[2 * count : 2 * count + read], strict=True):
            points[first + place] += factor * weight
    return [key for _, key in nlargest(limit, ((total, key) for key, total in points.items()))]


def waiting(limit: int) -> QuerySet[Paper, Any]:
    """Keys of the latest papers, at most `limit`, whose block is not made yet; to be a subquery."""
    made = PostingsBlock.objects.order_by("-until").values("until")[:1]
    later = Paper.objects.filter(pk__gt=Coalesce(Subquery(made), 0))
    return later.order_by("-pk").values("pk")[:limit]


def make(seconds: float) -> int:
    """Make blocks that are missing, and the last one if papers came; how many were made.

    It ends with the block during which the time is up.
    """
    last = Paper.objects.aggregate(last=Max("pk"))["last"]
    if last is None:
        return 0
    made, end = 0, time.monotonic() + seconds
    ready = dict(
        PostingsBlock.objects.filter(vocabulary=fingerprint()).values_list("block", "until")
    )
    for block in range(last // BLOCK, -1, -1):
        until = min(last, (block + 1) * BLOCK - 1)
        if ready.get(block, -1) < until:
            _make(block, until)
            made += 1
            if time.monotonic() > end:
                break
    return made


@cache
def fingerprint() -> str:
    """A digest of the vocabulary and of what a block holds."""
    return sha256((DATA / "vocabulary.json").read_bytes() + bytes([TERMS])).hexdigest()


def _make(block: int, until: int) -> None:
    first = block * BLOCK
    papers = Paper.objects.filter(pk__gte=first, pk__lte=until)
    by_term: dict[str, list[tuple[int, int]]] = defaultdict(list)
    for key, title, abstract in papers.values_list("pk", "title", "abstract").iterator():
        weights = vector(title, abstract)
        for term in nlargest(TERMS, weights, key=lambda term: (weights[term], term)):
            by_term[term].append((max(round(SCALE * weights[term]), 1), key - first))
    made = [
        TermPostings(term=term, block=block, values=_packed(by_term[term]))
        for term in sorted(by_term)  # in one order, so that two at once do not wait for each other
    ]
    with transaction.atomic():
        TermPostings.objects.filter(block=block).delete()
        TermPostings.objects.bulk_create(
            made,
            batch_size=1_000,
            update_conflicts=True,
            unique_fields=["term", "block"],
            update_fields=["values"],
        )
        PostingsBlock.objects.update_or_create(
            block=block, defaults={"until": until, "vocabulary": fingerprint()}
        )


def _packed(papers: list[tuple[int, int]]) -> bytes:
    papers.sort(reverse=True)
    places = pack(f"<{len(papers)}H", *(place for _, place in papers))
    return places + bytes(weight for weight, _ in papers)
