"""A reader's feedback, and when their preferences are learned from it.

Every source has its own model: all that a reader saves, or one of their lists. A star, a note, a
place on a list and an import each count as "liked", as does a paper of a Zotero library that the
reader learns from (an older one less).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

from django.contrib.auth.models import User
from django.db import connection, transaction
from django.db.models import Max
from django.db.models.signals import m2m_changed, post_delete, post_save
from django.dispatch import receiver
from django.utils import timezone
from django.utils.translation import gettext

from webapp.core import revisions, tasks
from webapp.digests.build import build
from webapp.digests.models import LearnedModel, Profile
from webapp.digests.profiles.preview import DAYS
from webapp.digests.profiles.validation import stored_model
from webapp.learning.preferences import Learned
from webapp.learning.training import LEFT, READ, Signals, train
from webapp.library import zotero_reading
from webapp.library.models import LibraryEntry, LikedText, ReadingList, Star
from webapp.papers.models import Paper
from webapp.papers.queries import dates

MAX_SIGNALS = 1_000  # papers of each signal, the latest
TOGETHER = 50  # readers whose days are built in one go
LEARN = "learn"  # the work that waits for readers whose feedback changed
ALL = ""  # the source of everything that a reader keeps; else `list:<key>`


def signals(reader: User, source: str = ALL) -> Signals:
    """The feedback of `reader`: all of it, or what is on a list.

    What is not for them counts against every interest.
    """
    entries = LibraryEntry.objects.filter(reader=reader)[:MAX_SIGNALS]
    kind, _, name = source.partition(":")
    texts: tuple[tuple[str, str], ...] = ()
    zotero: list[tuple[str, str, float]] = []
    if kind == "list":
        listed = ReadingList.papers.through.objects.filter(
            readinglist__reader=reader, readinglist=int(name)
        )
        weights = dict.fromkeys(listed.values_list("paper_id", flat=True)[:MAX_SIGNALS], 1.0)
    else:
        weights = {entry.paper_id: READ for entry in entries if entry.read_at}
        weights |= {entry.paper_id: 1.0 for entry in entries if entry.note}
        stars = Star.objects.filter(reader=reader).values_list("paper_id", flat=True)
        listed = ReadingList.papers.through.objects.filter(readinglist__reader=reader)
        saved = [*stars[:MAX_SIGNALS], *listed.values_list("paper_id", flat=True)[:MAX_SIGNALS]]
        weights |= dict.fromkeys(saved, 1.0)
        liked = LikedText.objects.filter(reader=reader).order_by("-pk")[:MAX_SIGNALS]
        texts = tuple(liked.values_list("title", "abstract"))
        from_zotero = zotero_reading.liked(reader)[:MAX_SIGNALS]
        here = Paper.objects.in_bulk(
            [item.arxiv_id for item, _ in from_zotero if item.arxiv_id], field_name="arxiv_id"
        )
        for item, weight in from_zotero:
            if paper := here.get(item.arxiv_id):
                weights[paper.pk] = max(weight, weights.get(paper.pk, 0.0))
            else:
                zotero.append((item.title, item.abstract, round(weight, 3)))
    weights |= {entry.paper_id: -LEFT for entry in entries if entry.not_for_me}
    return Signals(weights, texts, tuple(zotero))


def sources(owner: int | None) -> list[tuple[str, str]]:
    """The lists of a reader, each with its label."""
    if owner is None:
        return []
    lists = ReadingList.objects.filter(reader=owner)
    return [(f"list:{listed.pk}", gettext("the list “%s”") % listed.name) for listed in lists]


def learn(reader_id: int) -> bool:
    """Train a reader's models if their feedback changed, and rank their latest days by them.

    The days before wait for `learn_all`. Idempotent. Returns whether a model changed.
    """
    return _learn([reader_id], 1) > 0


def learn_all() -> int:
    """Rank the last days of every reader whose feedback changed, learning if `learn` has not.

    Returns how many models changed. Whoever is stopped meanwhile goes on with the readers left.
    """
    waiting = revisions.pending(LEARN)
    readers = [int(key) for key in waiting if key]
    if "" in waiting:
        readers = list(User.objects.filter(is_active=True).values_list("pk", flat=True))
    changed = 0
    for start in range(0, len(readers), TOGETHER):
        some = readers[start : start + TOGETHER]
        changed += _learn(some, DAYS)
        revisions.settle(wait for reader in some for wait in waiting.get(str(reader), ()))
    # That for everybody, and those of readers who are gone.
    revisions.settle(wait for waits in waiting.values() for wait in waits)
    return changed


def _learn(readers: list[int], days: int) -> int:
    """Train what changed of these readers, and build their last days; how many had a change."""
    active = User.objects.filter(pk__in=readers, is_active=True)
    learning = Profile.objects.filter(owner__in=active).exclude(ranking=Profile.Ranking.RULES)
    changed = 0
    for reader in active:
        lists = learning.filter(owner=reader).values_list("learn_from", flat=True)
        to_learn = {ALL, *lists}
        changed += max(_learn_from(reader, source) for source in to_learn)  # any() would stop
        LearnedModel.objects.filter(reader=reader).exclude(source__in=to_learn).delete()
    if profiles := list(learning):
        recent = dates(days)
        build(recent, profiles)
        # A profile's page is of its own latest day, which may be before the site's.
        shown = list(learning.annotate(latest=Max("digests__date")).exclude(latest__in=recent))
        for day in sorted({profile.latest for profile in shown if profile.latest}):
            build([day], [profile for profile in shown if profile.latest == day])
    return changed


def model_for(owner: int | None, source: str) -> Learned | None:
    """Return what is learned from a reader's present feedback, trained and stored if it changed.

    Without a reader, the model of the site's own list.
    """
    if owner is not None:
        reader = User.objects.filter(pk=owner).first()
        if reader is None:
            return None
        _learn_from(reader, source)
    return stored_model(owner, source)


def _learn_from(reader: User, source: str) -> bool:
    """Store the model of a source if its feedback changed; returns whether it did."""
    feedback = signals(reader, source)
    model = LearnedModel.objects.filter(reader=reader, source=source).first()
    if model and model.fingerprint == feedback.fingerprint:
        return False
    trained = train(feedback)
    if trained is None:
        if model:
            model.delete()
        return bool(model)
    LearnedModel.objects.update_or_create(
        reader=reader,
        source=source,
        defaults={
            "intercept": trained.model.intercept,
            "weights": trained.model.weights,
            "reference": trained.reference,
            "margin": trained.margin,
            "examples": trained.examples,
            "liked": trained.liked,
            "disliked": feedback.disliked,
            "fingerprint": trained.fingerprint,
            "trained_at": timezone.now(),
        },
    )
    return True


@receiver((post_save, post_delete), sender=Star)
@receiver((post_save, post_delete), sender=LibraryEntry)
@receiver((post_save, post_delete), sender=LikedText)
@receiver(m2m_changed, sender=ReadingList.papers.through)
def _learn_after_change(
    instance: Star | LibraryEntry | LikedText | ReadingList, **_: object
) -> None:
    """Ask for learning once after each transaction that changes feedback: an import has many."""
    call = _request_learning(instance.reader_id)
    if not any(call in waiting for waiting in connection.run_on_commit):
        transaction.on_commit(call)


@cache
def _request_learning(reader_id: int) -> Callable[[], None]:
    return lambda: ask(reader_id)


def ask(reader_id: int) -> None:
    """Have a worker learn now; where the broker is down, the next scheduled run does."""
    tasks.send("site.learn", [reader_id], lost="learning waits for the next scheduled run")
