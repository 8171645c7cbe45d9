"""The best of all papers: asked for on a page, looked for by a worker that tells how far it is."""

from __future__ import annotations

import re
from datetime import timedelta
from threading import Thread
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.test import Client
from django.utils import timezone

from tests import factories
from tests.digests.days import MONDAY, TUESDAY, paper, profile
from webapp.core import tasks
from webapp.digests import backlog
from webapp.digests.models import BestSince, Profile
from webapp.digests.scoring.scorer import Scorer
from webapp.papers.models import Paper

PAGE = "/profiles/mine/best/"
LIVE = {"HX-Request": "true"}


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    found: list[Any] = []
    monkeypatch.setattr(tasks, "send", lambda name, args, **_: not found.append((name, *args)))
    return found


@pytest.fixture
def mine(db: None) -> Profile:
    for number, day in ((1, MONDAY), (2, MONDAY), (3, TUESDAY), (4, TUESDAY), (5, TUESDAY)):
        title = "On attention" if number % 2 else "On little"
        paper(number, title, abstract="Of nothing.", announced_on=day)
    made = profile(words=["attention"], size=2)
    made.slug, made.owner = "mine", factories.make_reader("ada")
    made.save()
    return made


@pytest.fixture
def client(mine: Profile) -> Client:
    client = Client()
    client.force_login(User.objects.get(username="ada"))
    return client


def test_a_worker_finds_what_was_asked_for_on_the_page(
    client: Client, mine: Profile, sent: list[Any]
) -> None:
    assert client.get("/profiles/mine/").content.decode().count(PAGE) == 1
    assert client.post(PAGE, {"since": str(MONDAY)})["Location"] == PAGE
    assert sent == [("site.best_since", mine.pk)]
    assert "Waiting for a worker" in client.get(PAGE).content.decode()
    assert "HX-Refresh" not in client.get(PAGE, headers=LIVE)
    # Asked for once more meanwhile, it is not begun anew.
    client.post(PAGE, {"since": str(TUESDAY)})
    assert len(sent) == 1
    assert backlog.store_best(mine.pk)
    assert not backlog.store_best(mine.pk)
    assert client.get(PAGE, headers=LIVE)["HX-Refresh"] == "true"
    page = client.get(PAGE).content.decode()
    assert '<b class="num">3</b> of <b class="num">5</b> papers since 2 March 2026 match' in page
    best = [one.paper.arxiv_id for one in client.get(PAGE).context["entries"]]
    assert best == ["2603.00001", "2603.00003"]
    assert page.index("2603.00001") < page.index("2603.00003")
    assert "has changed since" not in page
    mine.save()
    assert "has changed since" in client.get(PAGE).content.decode()


@pytest.mark.parametrize("chunk", [4, 7, 100])
def test_the_best_do_not_depend_on_how_many_papers_are_read_at_a_time(
    mine: Profile, monkeypatch: pytest.MonkeyPatch, chunk: int
) -> None:
    Paper.objects.all().delete()
    for number in range(39, 9, -1):  # the best come last
        title = "On attention" if number % 3 == 0 else "On little"
        paper(number, title, abstract="Of attention.", announced_on=TUESDAY)
    monkeypatch.setattr(backlog, "CHUNK", chunk)
    scored: list[str] = []
    points = Scorer._points_by_rule

    def counted(self: Scorer, candidate: Any) -> Any:
        scored.append(candidate.id)
        return points(self, candidate)

    monkeypatch.setattr(Scorer, "_points_by_rule", counted)
    best = backlog.score_since(mine, MONDAY, lambda *_: None)
    assert best.digest.matched == 30
    ids = Paper.objects.in_bulk([row["paper"] for row in best.rows])
    assert [ids[row["paper"]].arxiv_id for row in best.rows] == ["2603.00012", "2603.00015"]
    # Of each chunk the two best, with the two best so far, and at the end these, are scored again.
    assert len(scored) <= 30 + 4 * -(-30 // chunk) + 2


def test_a_keyword_narrows_what_was_found(client: Client, mine: Profile, sent: list[Any]) -> None:
    mine.keywords.append({"keyword": "little", "weight": 1.0, "title_bonus": 1.0})
    mine.size = 5
    mine.save()
    client.post(PAGE, {"since": str(MONDAY)})
    backlog.store_best(mine.pk)
    whole = client.get(PAGE).content.decode()
    assert 'href="?keyword=little"' in whole
    assert 'class="chosen"' not in whole
    page = client.get(f"{PAGE}?keyword=little").content.decode()
    assert re.findall(r'id="p-(\d{4}\.\d{5})"', page) == ["2603.00002", "2603.00004"]
    assert '<span class="num">2</span> of <span class="num">5</span>' in page
    assert '<a href="?">Show all</a>' in page
    assert "No paper matches" in client.get(f"{PAGE}?keyword=nothing").content.decode()


def test_it_tells_how_far_it_is(
    client: Client, mine: Profile, sent: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(backlog, "CHUNK", 2)
    client.post(PAGE, {"since": str(MONDAY)})
    seen: list[str] = []
    score = backlog.score_since

    def watched(profile: Profile, since: Any, on_progress: Any) -> Any:
        def tell(done: int, of: int) -> None:
            on_progress(done, of)
            seen.append(client.get(PAGE, headers=LIVE).content.decode())

        return score(profile, since, tell)

    monkeypatch.setattr(backlog, "score_since", watched)
    backlog.store_best(mine.pk)
    for done, page in zip((2, 4, 5), seen, strict=True):
        assert f'<b class="num">{done}</b> of <b class="num">5</b> papers scored' in page
        assert f'value="{done}"' in page
    assert BestSince.objects.get().ended_at


def test_a_look_that_stopped_says_so_and_can_be_started_again(
    client: Client, mine: Profile, sent: list[Any]
) -> None:
    client.post(PAGE, {"since": str(MONDAY)})
    BestSince.objects.update(heard_at=timezone.now() - timedelta(minutes=4))
    assert "The search stopped early" in client.get(PAGE).content.decode()
    client.post(PAGE, {"since": str(TUESDAY)})
    assert len(sent) == 2
    backlog.store_best(mine.pk)
    assert 'of <b class="num">3</b> papers since 3 March' in client.get(PAGE).content.decode()


def test_what_cannot_be_asked_is_refused_aloud(
    client: Client, mine: Profile, monkeypatch: pytest.MonkeyPatch
) -> None:
    for wrong in ("", "yesterday", "2026-02-31"):
        page = client.post(PAGE, {"since": wrong})
        assert page.status_code == 422
        assert "Write the day in the form 2026-03-02." in page.content.decode()
    monkeypatch.setattr(tasks, "send", lambda *_, **__: False)
    assert "queue cannot be reached" in client.post(PAGE, {"since": "2026-03-02"}).content.decode()
    assert not BestSince.objects.exists()
    client.force_login(factories.make_reader("eve"))
    assert client.get(PAGE).status_code == 404


@pytest.mark.django_db(transaction=True)
def test_others_may_write_while_it_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    """On SQLite whoever reads from an open cursor cannot write once another has written."""
    monkeypatch.setattr(backlog, "CHUNK", 2)
    for number in range(1, 6):
        paper(number, "On attention", announced_on=MONDAY)
    mine = profile(words=["attention"])
    moment = timezone.now()
    BestSince.objects.create(profile=mine, since=MONDAY, asked_at=moment, heard_at=moment)
    admits = backlog.rules_of(mine).__class__.admits

    def another() -> None:
        Profile.objects.filter(pk=mine.pk).update(name="another")
        connection.close()

    def slowly(*args: Any) -> bool:
        writer = Thread(target=another)
        writer.start()
        writer.join()
        return admits(*args)

    monkeypatch.setattr(backlog.rules_of(mine).__class__, "admits", slowly)
    assert backlog.store_best(mine.pk)
    assert BestSince.objects.get().scored == 5
