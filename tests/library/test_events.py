"""Learning touches the readers whose feedback changed, whoever wrote it and however."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from tests import factories
from tests.digests.days import MONDAY, TUESDAY, announce, paper, profile
from webapp.core import revisions
from webapp.digests.build import build
from webapp.digests.models import Digest, LearnedModel, Profile
from webapp.learning import numbered
from webapp.library import feedback
from webapp.library.models import (
    LibraryEntry,
    LikedText,
    ReadingList,
    Star,
    ZoteroItem,
    ZoteroReading,
)
from webapp.papers.models import Paper

pytestmark = pytest.mark.django_db


@pytest.fixture
def reader() -> User:
    """A reader with an entry, a list and a Zotero library, of whom all was learned; one beside."""
    papers = [paper(number) for number in range(9)]
    announce(MONDAY, *papers)
    for name in ("beside", "reader"):
        made: User = factories.make_reader(name)
        LibraryEntry.objects.create(reader=made, paper=papers[0])
        LikedText.objects.create(reader=made, title="A text")
        Star.objects.bulk_create([Star(reader=made, paper=one) for one in papers[:3]])
        ReadingList.objects.create(reader=made, name="Later").papers.add(papers[3])
    mine = ReadingList.objects.get(reader=made)
    profile("Mine", owner=made, ranking="learned", learn_from=f"list:{mine.pk}")
    ZoteroReading.objects.create(reader=made)
    ZoteroItem.objects.create(
        reader=made, key="A", title="Later here", arxiv_id="2603.00077", added_at=timezone.now()
    )
    feedback.learn_all()
    assert not revisions.pending("learn")
    return made


def starred(reader: User) -> None:
    Star.objects.bulk_create([Star(reader=reader, paper=Paper.objects.latest("pk"))])


def by_sql(reader: User) -> None:
    with connection.cursor() as cursor:
        cursor.execute("DELETE FROM digests_star WHERE reader_id = %s", [reader.pk])


WRITES: dict[str, Callable[[User], object]] = {
    "a star in bulk": starred,
    "a star by SQL": by_sql,
    "a note": lambda reader: reader.library.update(note="Read this"),  # type: ignore[attr-defined]
    "read": lambda reader: reader.library.update(read_at=timezone.now()),  # type: ignore[attr-defined]
    "not for me": lambda reader: reader.library.update(not_for_me=True),  # type: ignore[attr-defined]
    "a text": lambda reader: LikedText.objects.filter(reader=reader).delete(),
    "on a list": lambda reader: ReadingList.objects.get(reader=reader).papers.add(
        Paper.objects.latest("pk")
    ),
    "off a list": lambda reader: ReadingList.objects.get(reader=reader).papers.clear(),
    "a list deleted": lambda reader: ReadingList.objects.filter(reader=reader).delete(),
    "a Zotero paper": lambda reader: ZoteroItem.objects.filter(reader=reader).update(title="X"),
    "collections": lambda reader: ZoteroReading.objects.update(include=["BIRDS"]),
    "a paper of Zotero's arrives": lambda reader: paper(77),
    "learns from all": lambda reader: Profile.objects.update(learn_from=""),
    "ranks by rules": lambda reader: Profile.objects.update(ranking="rules"),
    "switched off": lambda reader: User.objects.filter(pk=reader.pk).update(is_active=False),
    "gone": lambda reader: reader.delete(),
}


@pytest.fixture
def trained(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The readers whose feedback is read, from here on."""
    names: list[str] = []
    real = feedback.signals

    def signals(reader: User, source: str = feedback.ALL) -> Any:
        names.append(reader.username)
        return real(reader, source)

    monkeypatch.setattr(feedback, "signals", signals)
    return names


@pytest.mark.parametrize("write", WRITES)
def test_every_write_is_learned_from_and_no_other_reader_is_looked_at(
    reader: User, trained: list[str], write: str
) -> None:
    key = str(reader.pk)
    WRITES[write](reader)
    assert set(revisions.pending("learn")) == {key}
    feedback.learn_all()
    assert set(trained) <= {"reader"}
    assert bool(trained) == (write not in {"switched off", "gone"})
    assert not revisions.pending("learn")
    feedback.learn_all()
    assert len(trained) <= 2, "once for each source"


def test_what_is_written_while_it_is_learned_is_learned_next(
    reader: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, late = feedback.train, Paper.objects.latest("pk")

    def train(feedback: Any) -> Any:
        Star.objects.get_or_create(reader=reader, paper=late)
        return real(feedback)

    Star.objects.filter(reader=reader).first().delete()  # type: ignore[union-attr]
    with monkeypatch.context() as patch:
        patch.setattr(feedback, "train", train)
        feedback.learn_all()
    before = LearnedModel.objects.get(reader=reader, source="").liked
    feedback.learn_all()
    assert LearnedModel.objects.get(reader=reader, source="").liked == before + 1


def test_after_the_triggers_were_away_every_reader_is_looked_at(
    reader: User, trained: list[str]
) -> None:
    revisions.remove()
    starred(reader)
    revisions.install()
    assert feedback.learn_all() == 1
    assert set(trained) == {"reader", "beside"}
    trained.clear()
    feedback.learn_all()
    assert not trained


def test_nothing_waits_for_a_reader_who_is_gone(reader: User, trained: list[str]) -> None:
    starred(reader)
    waiting = revisions.pending("learn")
    assert list(waiting) == [str(reader.pk)]
    revisions.remove()
    revisions.install()  # everybody is to be looked at, and this one's wait is there besides
    User.objects.filter(pk=reader.pk).update(is_active=False)
    feedback.learn_all()
    assert set(trained) == {"beside"}
    assert not revisions.pending("learn")


def test_likes_that_came_before_any_paper_are_learned_from_when_there_are_some() -> None:
    early: User = factories.make_reader()
    for number in range(5):
        LikedText.objects.create(reader=early, title=f"Robot {number}", abstract="It grasps.")
    assert feedback.learn_all() == 0
    announce(MONDAY, *(paper(number) for number in range(9)))
    assert feedback.learn_all() == 1


def test_a_star_ranks_the_latest_day_at_once_and_the_days_before_with_the_next_look(
    reader: User,
) -> None:
    announce(TUESDAY, *(paper(number) for number in range(20, 26)))
    mine = profile("Ranked", owner=reader, ranking="learned", words=[])
    build([MONDAY, TUESDAY], [mine])
    built = Digest.objects.filter(profile=mine).order_by("date")
    old = list(built.values_list("inputs", flat=True))
    starred(reader)
    assert feedback.learn(reader.pk)
    monday, tuesday = built.values_list("inputs", flat=True)
    assert (monday == old[0], tuesday == old[1]) == (True, False)
    assert revisions.pending("learn")
    feedback.learn_all()
    assert built[0].inputs != old[0]
    assert built[1].inputs == tuesday
    assert not revisions.pending("learn")


def test_after_a_star_a_worker_reads_no_paper_of_the_latest_day_again(reader: User) -> None:
    """Neither from the database nor word by word, but for the one that was saved."""
    announce(MONDAY, *(paper(n, f"Robots {n}", abstract=f"Owls {n}.") for n in range(20, 60)))
    mine = profile("Ranked", owner=reader, ranking="both")
    build([MONDAY], [mine])
    starred(reader)
    feedback.learn(reader.pk)
    Star.objects.bulk_create([Star(reader=reader, paper=Paper.objects.order_by("-pk")[2])])
    read = numbered.numbered_vector.cache_info().misses
    with CaptureQueriesContext(connection) as queries:
        assert feedback.learn(reader.pk)
    assert numbered.numbered_vector.cache_info().misses <= read + 1
    announcements = [one["sql"] for one in queries if "papers_announcement" in one["sql"]]
    assert not [sql for sql in announcements if "abstract" in sql]
