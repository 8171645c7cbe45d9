"""What a reader likes, learned from what they keep: a linear model over TF-IDF.

A star, a note, a tag, a place on a list and an import each count as "liked"; a paper marked as read
counts a third of that. "Not for me" is a negative example with three times the weight of one of the
recent papers that stand for everything else.
"""

import random
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from hashlib import sha256

from django.contrib.auth.models import User
from django.db import connection, transaction
from django.db.models.signals import m2m_changed, post_delete, post_save
from django.dispatch import receiver
from django.utils import timezone

from webapp import tasks
from webapp.digests.build import build
from webapp.digests.models import LearnedModel, Profile
from webapp.digests.profiles.preview import DAYS
from webapp.learning.svm import Example, fit
from webapp.learning.tfidf import vector
from webapp.library.models import LibraryEntry, LikedText, ReadingList, Star
from webapp.papers.models import Paper
from webapp.papers.queries import dates

LEAST = 5  # liked papers before anything is learned
READ = 1 / 3  # weight of a paper that was only read
LEFT = 3.0  # weight of one that is not for the reader
BACKGROUND, RECENT = 400, 4_000  # papers that stand for the rest, drawn from so many recent ones
MOST = 1_000  # papers of each signal, the latest


@dataclass(frozen=True)
class Signals:
    """A reader's feedback: weights of papers, and texts of liked papers that this site lacks."""

    weights: dict[int, float]  # by primary key; negative for a paper that is not for the reader
    texts: tuple[tuple[str, str], ...]  # (title, abstract)

    @property
    def count(self) -> int:
        """Papers that were kept, not only read."""
        return sum(weight == 1 for weight in self.weights.values()) + len(self.texts)

    @property
    def fingerprint(self) -> str:
        """Equal for equal signals, and so for equal models."""
        whole = sorted(self.weights.items()), self.texts
        return sha256(repr(whole).encode()).hexdigest()


def signals(reader: User) -> Signals:
    """All feedback of `reader`."""
    entries = LibraryEntry.objects.filter(reader=reader)[:MOST]
    weights = {one.paper_id: READ for one in entries if one.read_at}
    weights |= {one.paper_id: 1.0 for one in entries if one.note or one.tags}
    stars = Star.objects.filter(reader=reader).values_list("paper_id", flat=True)
    listed = ReadingList.papers.through.objects.filter(readinglist__reader=reader)
    kept = [*stars[:MOST], *listed.values_list("paper_id", flat=True)[:MOST]]
    weights |= dict.fromkeys(kept, 1.0)
    weights |= {one.paper_id: -LEFT for one in entries if one.not_for_me}
    texts = LikedText.objects.filter(reader=reader).order_by("-pk")[:MOST]
    return Signals(weights, tuple(texts.values_list("title", "abstract")))


def learn(reader_id: int) -> bool:
    """Train a reader's model if their feedback changed, and rank their last days by it.

    Idempotent. Returns whether the model changed.
    """
    reader = User.objects.filter(pk=reader_id, is_active=True).first()
    if reader is None:
        return False
    feedback = signals(reader)
    known = LearnedModel.objects.filter(reader=reader).first()
    if feedback.count < LEAST:
        if known is None:
            return False
        known.delete()
    elif (known and known.fingerprint == feedback.fingerprint) or not _train(reader, feedback):
        return False
    mine = Profile.objects.filter(owner=reader).exclude(ranking=Profile.Ranking.RULES)
    if mine:
        build(dates(DAYS), mine)
    return True


def learn_all() -> int:
    """`learn` for every reader, in case a message was lost. Returns how many models changed."""
    readers = User.objects.filter(is_active=True).values_list("pk", flat=True)
    return sum(learn(reader) for reader in readers)


def _train(reader: User, feedback: Signals) -> bool:
    """Store a new model; False where there are no negative examples."""
    papers = Paper.objects.in_bulk(feedback.weights)
    examples = [
        Example(vector(papers[key].title, papers[key].abstract), weight > 0, abs(weight))
        for key, weight in feedback.weights.items()
        if key in papers
    ]
    examples += [Example(vector(title, abstract), True) for title, abstract in feedback.texts]
    examples += [Example(one, False) for one in _others(set(feedback.weights))]
    if all(one.liked for one in examples):
        return False
    model, disliked = fit(examples), sum(weight < 0 for weight in feedback.weights.values())
    LearnedModel.objects.update_or_create(
        reader=reader,
        defaults={
            "intercept": model.intercept,
            "weights": model.weights,
            "liked": len(feedback.weights) - disliked + len(feedback.texts),
            "disliked": disliked,
            "fingerprint": feedback.fingerprint,
            "trained_at": timezone.now(),
        },
    )
    return True


def _others(known: set[int]) -> list[dict[str, float]]:
    """Vectors of recent papers without feedback."""
    recent = Paper.objects.order_by("-pk").values_list("pk", flat=True)[:RECENT]
    keys = [key for key in recent if key not in known]
    drawn = random.Random(0).sample(keys, min(BACKGROUND, len(keys)))
    rows = Paper.objects.filter(pk__in=drawn).order_by("pk").values_list("title", "abstract")
    return [vector(title, abstract) for title, abstract in rows]


@receiver((post_save, post_delete), sender=Star)
@receiver((post_save, post_delete), sender=LibraryEntry)
@receiver((post_save, post_delete), sender=LikedText)
@receiver(m2m_changed, sender=ReadingList.papers.through)
def _learn_after_change(
    instance: Star | LibraryEntry | LikedText | ReadingList, **_: object
) -> None:
    """Ask for learning once after each transaction that changes feedback: an import has many."""
    call = _asking(instance.reader_id)
    if not any(call in waiting for waiting in connection.run_on_commit):
        transaction.on_commit(call)


@cache
def _asking(reader_id: int) -> Callable[[], None]:
    return lambda: ask(reader_id)


def ask(reader_id: int) -> None:
    """Have a worker learn now; where the broker is down, the next scheduled run does."""
    tasks.send("site.learn", [reader_id], lost="learning waits for the next scheduled run")
