"""With nothing changed the periodic tasks ask the same of one reader and of a hundred."""

from __future__ import annotations

from datetime import date
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.utils import timezone

from tests import factories
from tests.digests.days import MONDAY, TUESDAY, announce, paper, profile
from tests.mail.conftest import inbox  # noqa: F401 (a fixture)
from tests.servers.openai import OpenAIServer
from tests.summaries.conftest import model  # noqa: F401 (a fixture)
from webapp.digests.daily import ask_for
from webapp.digests.models import Digest, LearnedModel
from webapp.library.models import Star
from webapp.mail.models import Delivery
from webapp.papers.models import Paper
from webapp.summaries.models import Summary
from workers.site import tasks

pytestmark = pytest.mark.django_db
# Not `site.poll`, which asks arXiv, nor what is for runs: readers do not appear there.
AT_REST = (
    *("site.build", "site.read_tables", "site.link", "site.vectors", "site.postings"),
    *("site.learn_all", "site.summaries", "site.mail"),
)


@pytest.fixture(autouse=True)
def _quiet(monkeypatch: pytest.MonkeyPatch, settings: Any) -> None:
    """No message leaves, and arXiv is not asked for tables."""
    monkeypatch.setattr(tasks.summarise_paper, "apply_async", lambda *_, **__: None)
    settings.TABLE_PAPERS = 0
    Paper.objects.update(enriched_at=timezone.now())


def join(number: int) -> User:
    """A reader with papers saved, a profile that learns, and mail each day."""
    reader: User = factories.make_reader(f"reader-{number}")
    reader.email = f"reader-{number}@home.example"
    reader.save()
    mine = profile(f"Profile {number}", slug=f"profile-{number}", owner=reader, ranking="both")
    for one in Paper.objects.order_by("pk")[:6]:
        Star.objects.create(reader=reader, paper=one)
    Delivery.objects.create(
        reader=reader, profile=mine, frequency="daily", sent_until=TUESDAY, looked_on=TUESDAY
    )
    return reader


@pytest.fixture
def day() -> date:
    announce(MONDAY, *(paper(number, f"Sparse attention {number}") for number in range(8)))
    announce(TUESDAY, *(paper(number, f"Robot grasping {number}") for number in range(10, 18)))
    Paper.objects.update(enriched_at=timezone.now(), announced_on=TUESDAY)
    return TUESDAY


def work() -> dict[str, list[str]]:
    """The queries of each task, by its name."""
    asked: dict[str, list[str]] = {name: [] for name in AT_REST}
    for name in AT_REST:

        def note(execute: Any, sql: str, *given: Any, to: list[str] = asked[name]) -> Any:
            to.append(sql)
            return execute(sql, *given)

        with connection.execute_wrapper(note):
            tasks.app.tasks[name]()
    return asked


@pytest.mark.usefixtures("inbox")
def test_nothing_changed_costs_the_same_for_any_number_of_readers(
    day: date,
    model: OpenAIServer,  # noqa: F811
) -> None:
    asked = []
    joined = 0
    for readers in (1, 100):
        for number in range(joined, readers):
            join(number)
        joined = readers
        ask_for([MONDAY, day])
        work()
        work()  # what the first has made is seen by the second
        assert Digest.objects.filter(profile__owner__isnull=False).count() == 2 * readers
        assert LearnedModel.objects.count() == readers
        assert Summary.objects.exists()
        asked.append(work())
    one, hundred = asked
    counts = {name: (len(one[name]), len(hundred[name])) for name in AT_REST}
    assert all(few == many for few, many in counts.values()), counts
    assert sum(many for _, many in counts.values()) <= 40, counts
    verbs = {sql.split()[0] for queries in hundred.values() for sql in queries}
    assert verbs <= {"SELECT", "SAVEPOINT", "RELEASE"}, verbs
