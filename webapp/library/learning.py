"""What a reader likes, learned from what they keep: a linear model over TF-IDF.

Every source has its own model: all that a reader keeps, or one of their lists or tags.

A star, a note, a tag, a place on a list and an import each count as "liked", as does a paper of a
Zotero library that the reader learns from (an older one less); a paper marked as read counts a
third of that. "Not for me" is a negative example with three times the weight of one of the recent
papers that stand for everything else.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from hashlib import sha256

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
from webapp.digests.profiles.validation import known_model
from webapp.digests.scoring.learned import TERMS as COMPARED
from webapp.digests.scoring.learned import Learned, LearnedPaper, packed_examples
from webapp.learning.linear import pruned
from webapp.learning.numbered import Vectors, numbered_vector, paper_vector
from webapp.learning.svm import Example, fit
from webapp.learning.tfidf import Vector
from webapp.library import zotero_reading
from webapp.library.importing import Named
from webapp.library.models import LibraryEntry, LikedText, ReadingList, Star
from webapp.papers.models import Paper
from webapp.papers.queries import dates

FORMAT = 3  # part of fingerprints: raise it when models are trained or stored differently
LEAST = 2  # liked papers before anything is learned: a guess until there are `digests.SURE`
READ = 1 / 3  # weight of a paper that was only read
LEFT = 3.0  # weight of one that is not for the reader
BACKGROUND, RECENT = 400, 4_000  # papers that stand for the rest, drawn from so many recent ones
CALIBRATED = 1_000  # further ones, among which a paper's closeness is a share
MAX_SIGNALS = 1_000  # papers of each signal, the latest
NAMED = 300  # examples that may be named as the nearest, the latest
TERMS = 1_000  # weights kept, the largest: the same order as all, in a tenth of the time
TOGETHER = 50  # readers whose days are built in one go
LEARN = "learn"  # the work that waits for readers whose feedback changed
Text = tuple[str, str]  # title and abstract
ALL = ""  # the source of everything that a reader keeps; else `list:<key>` or `tag:<name>`


@dataclass(frozen=True)
class Signals:
    """A reader's feedback: weights of papers, and texts of liked papers that this site lacks."""

    weights: dict[int, float]  # by primary key; negative for a paper that is not for the reader
    texts: tuple[tuple[str, str], ...]  # (title, abstract)
    zotero: tuple[tuple[str, str, float], ...] = ()  # (title, abstract, weight)

    def with_named(self, named: Named) -> Signals:
        """This feedback and papers that are liked, too."""
        weights = self.weights | {paper.pk: 1.0 for paper in named.papers}
        texts = tuple({**dict(self.texts), **named.texts}.items())
        return replace(self, weights=weights, texts=texts)

    @property
    def count(self) -> int:
        """Papers that were kept, not only read."""
        kept = sum(weight > READ for weight in self.weights.values())
        return kept + len(self.texts) + len(self.zotero)

    @property
    def disliked(self) -> int:
        """Papers that are not for the reader."""
        return sum(weight < 0 for weight in self.weights.values())

    @property
    def fingerprint(self) -> str:
        """Equal for equal signals, and so for equal models."""
        whole: tuple[object, ...] = FORMAT, sorted(self.weights.items()), sorted(self.texts)
        whole += (sorted(self.zotero),) if self.zotero else ()
        return sha256(repr(whole).encode()).hexdigest()


def signals(reader: User, source: str = ALL) -> Signals:
    """The feedback of `reader`: all of it, or what they keep on a list or under a tag.

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
    elif kind == "tag":
        weights = {entry.paper_id: 1.0 for entry in entries if name in entry.tags}
    else:
        weights = {entry.paper_id: READ for entry in entries if entry.read_at}
        weights |= {entry.paper_id: 1.0 for entry in entries if entry.note or entry.tags}
        stars = Star.objects.filter(reader=reader).values_list("paper_id", flat=True)
        listed = ReadingList.papers.through.objects.filter(readinglist__reader=reader)
        kept = [*stars[:MAX_SIGNALS], *listed.values_list("paper_id", flat=True)[:MAX_SIGNALS]]
        weights |= dict.fromkeys(kept, 1.0)
        known = LikedText.objects.filter(reader=reader).order_by("-pk")[:MAX_SIGNALS]
        texts = tuple(known.values_list("title", "abstract"))
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
    """The lists and tags of a reader, each with its label."""
    if owner is None:
        return []
    lists = ReadingList.objects.filter(reader=owner)
    tagged = LibraryEntry.objects.filter(reader=owner).exclude(tags=[])
    tags = sorted({tag for entry in tagged for tag in entry.tags})
    return [
        *((f"list:{listed.pk}", gettext("the list “%s”") % listed.name) for listed in lists),
        *((f"tag:{tag}", gettext("the tag “%s”") % tag) for tag in tags),
    ]


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
        sources = set(learning.filter(owner=reader).values_list("learn_from", flat=True))
        wanted = {ALL, *sources}
        changed += bool({source for source in wanted if _learn_from(reader, source)})
        LearnedModel.objects.filter(reader=reader).exclude(source__in=wanted).delete()
    if profiles := list(learning):
        recent = dates(days)
        build(recent, profiles)
        # A profile's page is of its own latest day, which may be before the site's.
        shown = list(learning.annotate(latest=Max("digests__date")).exclude(latest__in=recent))
        for day in sorted({profile.latest for profile in shown if profile.latest}):
            build([day], [profile for profile in shown if profile.latest == day])
    return changed


def model_for(owner: int | None, source: str) -> Learned | None:
    """What is learned from a reader's present feedback, trained and stored if it changed."""
    reader = User.objects.filter(pk=owner).first() if owner else None
    if reader is None:
        return None
    _learn_from(reader, source)
    return known_model(owner, source)


def _learn_from(reader: User, source: str) -> bool:
    """Store the model of a source if its feedback changed; returns whether it did."""
    feedback = signals(reader, source)
    known = LearnedModel.objects.filter(reader=reader, source=source).first()
    if known and known.fingerprint == feedback.fingerprint:
        return False
    trained = train(feedback)
    if trained is None:
        if known:
            known.delete()
        return bool(known)
    LearnedModel.objects.update_or_create(
        reader=reader,
        source=source,
        defaults={
            "intercept": trained.model.intercept,
            "weights": trained.model.weights,
            "reference": trained.reference,
            "examples": trained.examples,
            "liked": trained.liked,
            "disliked": feedback.disliked,
            "fingerprint": trained.fingerprint,
            "trained_at": timezone.now(),
        },
    )
    return True


def train(feedback: Signals) -> Learned | None:
    """A model of feedback, not stored; None for too few liked papers, or none to compare with."""
    if feedback.count < LEAST:
        return None
    papers = Paper.objects.filter(pk__in=feedback.weights)
    columns = papers.values_list("pk", "arxiv_id", "title", "abstract")
    texts = {key: (name, title, abstract) for key, name, title, abstract in columns}
    # In an order that does not depend on when each was saved: the same feedback, the same model.
    ordered = sorted(feedback.weights.items(), reverse=True)
    # What is known of each liked or refused paper, its text, and its weight.
    rated = [(*texts[key], weight) for key, weight in ordered if key in texts]
    more = [("", *text, 1.0) for text in sorted(feedback.texts)]
    more += [("", *item) for item in sorted(feedback.zotero)]
    examples = [
        Example(numbered_vector(title, abstract), weight > 0, abs(weight))
        for _, title, abstract, weight in [*rated, *more]
    ]
    background, reference = _others(set(feedback.weights))
    if not background and all(example.liked for example in examples):
        return None
    others = [Example(numbered_vector(*text), False) for text in background]
    model = pruned(fit([*examples, *others]), TERMS)
    named = [
        LearnedPaper(title, identifier, weight > 0, _strongest(title, abstract))
        for identifier, title, abstract, weight in [*rated, *more][:NAMED]
    ]
    learned = Learned(
        model,
        (),
        packed_examples(named),
        len(rated) - feedback.disliked + len(more),
        feedback.fingerprint,
    )
    odds = learned.log_odds(Vectors.of(reference or background)).round(4).tolist()
    return replace(learned, reference=tuple(sorted(odds)))


@lru_cache(2_000)  # a star adds one to what a reader had
def _strongest(title: str, abstract: str) -> Vector:
    """The strongest terms of a paper, as a vector of length 1."""
    vector = paper_vector(title, abstract)
    terms = sorted(vector.items(), key=lambda item: (-item[1], item[0]))[:COMPARED]
    length = math.hypot(*(value for _, value in terms)) or 1.0
    return {term: round(value / length, 4) for term, value in terms}


def _others(known: set[int]) -> tuple[list[Text], list[Text]]:
    """Recent papers without feedback: those to learn from, and those to calibrate by.

    They differ, since a model is surest of what it has seen. A paper is drawn by a hash of its
    identifier: nearly the same for every reader, on every site and after every star, so that a
    worker has their vectors.
    """
    recent = Paper.objects.order_by("-pk").values_list("pk", "arxiv_id")[:RECENT]
    mixed = sorted(recent, key=lambda keys: sha256(keys[1].encode()).digest())
    drawn = [key for key, _ in mixed if key not in known][: BACKGROUND + CALIBRATED]
    rows = Paper.objects.filter(pk__in=drawn).values_list("pk", "title", "abstract")
    by_key = {key: (title, abstract) for key, title, abstract in rows}
    texts = [by_key[key] for key in drawn if key in by_key]
    half = min(BACKGROUND, (len(texts) + 1) // 2)
    return texts[:half], texts[half:]


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
