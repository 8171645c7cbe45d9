"""A build holds profiles and models of so many bytes at once, whatever their number."""

from __future__ import annotations

import gc
import sys
import tracemalloc
from itertools import cycle, islice

import pytest
from django.utils import timezone

from tests import factories
from tests.digests.days import MONDAY, announce, paper, profile
from webapp.digests import batch
from webapp.digests import build as building
from webapp.digests.build import build
from webapp.digests.models import Digest, LearnedModel, Profile
from webapp.learning.preferences import TERMS as OF_EXAMPLE
from webapp.learning.preferences import LearnedPaper, packed_examples
from webapp.learning.tfidf import vocabulary
from webapp.learning.training import CALIBRATED, NAMED, TERMS

pytestmark = pytest.mark.django_db


def add_readers(number: int) -> None:
    """Add readers with a model as large as any, and a profile of a hundred keywords."""
    terms = cycle(vocabulary())
    examples = packed_examples(
        [
            LearnedPaper(f"A title of some length {n}", f"2603.{n:05d}", n % 3 > 0,
                         dict.fromkeys(islice(terms, OF_EXAMPLE), 0.1))
            for n in range(NAMED)
        ]
    )  # fmt: skip
    weights = dict.fromkeys(islice(vocabulary(), TERMS), 0.1234)
    for at in range(Profile.objects.count(), number):
        reader = factories.make_reader(f"reader-{at}")
        words = [f"keyword {at} {n}" for n in range(100)]
        profile(f"Mine {at}", slug=f"mine-{at}", owner=reader, ranking="both", words=words)
        LearnedModel.objects.create(
            reader=reader, intercept=0.0, weights=weights, examples=examples,
            reference=[n / 7 for n in range(CALIBRATED)], margin=0.5, liked=NAMED, disliked=0,
            fingerprint="a model", trained_at=timezone.now(),
        )  # fmt: skip


def peak() -> int:
    """Return the bytes that a build of every profile allocates at its peak."""
    Digest.objects.all().delete()
    gc.collect()
    tracemalloc.start()
    try:
        build([MONDAY], Profile.objects.filter(is_site=False))
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_memory_does_not_grow_with_the_readers(monkeypatch: pytest.MonkeyPatch) -> None:
    announce(MONDAY, *(paper(number, f"On sparse attention {number}") for number in range(40)))
    most = batch.PROFILE_BYTES + batch.MODEL_BYTES
    monkeypatch.setattr(building, "ROOM", 6 * most)
    peaks = []
    for number in (5, 20):
        add_readers(number)
        build([MONDAY])  # what is read once
        peaks.append(peak())
    assert peaks[1] - peaks[0] < most
    # The room of a profile is no less than what it takes.
    monkeypatch.setattr(building, "ROOM", sys.maxsize)
    assert (peak() - peaks[0]) / 15 < most + batch.BYTES_OF_CHARACTER * 1_000
