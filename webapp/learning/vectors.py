"""Vectors of papers, computed in the background and compared if they exist."""

import os
import threading
import time
from array import array
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import islice
from math import sqrt
from operator import mul

from django.db.models import Max, Min, QuerySet

from webapp.core.revisions import once
from webapp.learning import encoder
from webapp.learning.models import PaperVector
from webapp.papers.models import Paper, PaperVersion
from webapp.papers.queries import still_there

BATCH = 16  # papers of one call of the encoder
CHARACTERS = 1_200  # of a title and an abstract that are read: about 256 tokens
REPLACED = 500  # latest versions that are looked at for vectors of an older text


def stored_vectors(keys: Iterable[int]) -> dict[int, bytes]:
    """The vectors of those papers that have one of the encoder in use."""
    if not (name := encoder.name()):
        return {}
    rows = PaperVector.objects.filter(paper__in=list(keys), encoder=name)
    return {key: bytes(values) for key, values in rows.values_list("paper", "values")}


def cosines_with(vector: bytes, others: Mapping[int, bytes]) -> dict[int, float]:
    """The cosine of an int8 vector with each of the others that has its width."""
    mine = array("b", vector)
    length = sqrt(sum(map(mul, mine, mine))) or 1.0
    cosines = {}
    for key, values in others.items():
        theirs = array("b", values)
        if len(theirs) == len(mine):
            norm = sqrt(sum(map(mul, theirs, theirs))) or 1.0
            cosines[key] = sum(map(mul, mine, theirs)) / (length * norm)
    return cosines


def fill(seconds: float, must_stop: Callable[[], bool] = lambda: False) -> int:
    """Make missing vectors, new papers first, for about as long; return how many were made.

    `must_stop` is called before every batch and tells whether something urgent waits. Papers are
    taken in the order of their keys, away from those that have vectors in both directions: these
    are the checkpoint. Raises EncoderError.
    """
    name = encoder.name()
    if not name:
        return 0
    act = partial(_fill, name, time.monotonic() + seconds, must_stop)
    return once("vectors", ("papers",), act, name)


def _fill(name: str, until: float, must_stop: Callable[[], bool]) -> tuple[int, bool]:
    """Return how many were made, and whether none is missing."""
    made = 0
    while time.monotonic() < until and not must_stop():
        if not (papers := list(islice(_missing(name), BATCH))):
            return made, True
        store(papers)
        made += len(papers)
    return made, False


def store(papers: Sequence[Paper]) -> None:
    """Compute and store the vectors of these papers, replacing old ones. Raises EncoderError."""
    texts = [f"{paper.title}. {paper.abstract}"[:CHARACTERS] for paper in papers]
    with ThreadPoolExecutor(1, initializer=_lower_priority) as thread:
        encoded = list(zip(papers, thread.submit(encoder.encode, texts).result(), strict=True))
    with still_there(papers) as present:
        PaperVector.objects.bulk_create(
            [
                PaperVector(paper=paper, encoder=encoder.name(), version=paper.version, values=row)
                for paper, row in encoded
                if paper.pk in present
            ],
            update_conflicts=True,
            unique_fields=["paper"],
            update_fields=["encoder", "version", "values"],
        )


def _lower_priority() -> None:
    """Let all else on the machine run before this thread; Linux has a nice value for each thread.

    A whole process could not raise its priority again.
    """
    os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), 19)


def _missing(name: str) -> Iterable[Paper]:
    papers = Paper.objects.only("title", "abstract", "version")
    ends = PaperVector.objects.filter(encoder=name).aggregate(
        first=Min("paper_id"), last=Max("paper_id")
    )
    if ends["last"] is None:
        yield from papers.order_by("-pk")[:BATCH]
        return
    yield from papers.filter(pk__gt=ends["last"]).order_by("pk")[:BATCH]
    yield from _replaced(papers)
    yield from papers.filter(pk__lt=ends["first"]).order_by("-pk")[:BATCH]


def _replaced(papers: QuerySet[Paper]) -> Iterable[Paper]:
    """Papers of which a later version came."""
    latest = PaperVersion.objects.order_by("-pk").values_list("paper", flat=True)[:REPLACED]
    versions = dict(
        PaperVector.objects.filter(paper__in=list(latest)).values_list("paper", "version")
    )
    for paper in papers.filter(pk__in=versions):
        if paper.version != versions[paper.pk]:
            yield paper
