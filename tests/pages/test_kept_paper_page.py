"""A paper's page is kept for all while it shows the same; nobody sees another reader's own."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import timedelta
from io import StringIO
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.management import call_command
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from tests import factories
from webapp.catalog import corrections, linking
from webapp.catalog.models import MethodLink
from webapp.digests.models import DigestEntry
from webapp.library.models import LibraryEntry, ReadingList, Star
from webapp.papers.models import Paper, PaperVersion
from webapp.summaries.models import Claim, Summary
from webapp.ui import pages

pytestmark = pytest.mark.django_db
ADDRESS = "/papers/2603.00001/"
STAMPS = 2  # the paper, its revision
SIGNED_IN = STAMPS + 7  # session, reader, profiles, shelf, digests, library, lists


@pytest.fixture(autouse=True)
def paper() -> Paper:
    """A paper about a measured method, in the site's digest, with another like it."""
    call_command("import_results", "benchmarks/results/sparse_attention", stdout=StringIO())
    abstract = "Our sparse attention kernel reaches a 3.1x speedup over dense attention."
    made = factories.make_paper(1, title="Block sparse attention, faster", abstract=abstract)
    factories.make_paper(2, title="Block sparse attention again", abstract=abstract)
    for category in (made.primary_category, "math.ST"):
        factories.make_listing(category)
    factories.make_digest(factories.make_profile(), [made])
    linking.link(Paper.objects.all())
    return made


def body(client: Client, address: str = ADDRESS) -> str:
    response = client.get(address)
    assert response.status_code == 200
    return response.content.decode()


def asked(client: Client) -> list[str]:
    with CaptureQueriesContext(connection) as queries:
        body(client)
    return [one["sql"] for one in queries]


def signed_in(name: str, **fields: bool) -> tuple[Client, User]:
    client, user = Client(), User.objects.create_user(name, **fields)
    client.force_login(user)
    return client, user


SIMILAR = 'AS "block" FROM "learning_postingsblock"'


def test_similar_papers_are_not_sought_again(client: Client) -> None:
    ada, eve = signed_in("ada")[0], signed_in("eve")[0]
    assert any(SIMILAR in one for one in asked(client))
    assert len(asked(client)) == STAMPS
    assert any(SIMILAR in one for one in asked(ada)), "of another kind of reader"
    for one in (ada, eve):
        queries = asked(one)
        assert len(queries) <= SIGNED_IN
        assert not [one for one in queries if SIMILAR in one]
        assert "/papers/2603.00002/" in body(one)


def test_a_page_made_anew_reads_nothing_twice(client: Client) -> None:
    """With a claim of a model, numbers of the abstract and a similar paper: each table once."""
    report_a_claim()
    body(client)
    pages.cache.clear()
    queries = asked(client)
    assert len(queries) <= 15  # beside those of a bare page: claims, which paper is similar
    assert len(queries) == len(set(queries))
    once = [re.findall(r'(?:FROM|JOIN) "?([a-z_]+)', one)[0] for one in queries]
    assert {name for name in once if once.count(name) > 1} <= {"papers_paper"}


def summary(number: int = 1, **fields: Any) -> Summary:
    facts = {"version": 1, "prompt_version": "v2", "model": "m", "language": "en"} | fields
    paper = Paper.objects.get(arxiv_id=f"2603.{number:05d}")
    return Summary.objects.create(paper=paper, **facts)


def report_a_claim() -> None:
    done = summary(state="done", finished_at=timezone.now(), gist_html="It is fast.", html="")
    Claim.objects.create(summary=done, position=0, metric="Wall-clock of a claim", value="3.1",
                         unit="×", state="number and unit", quote="reaches 3.1×")  # fmt: skip


def first_link() -> MethodLink:
    return MethodLink.objects.filter(paper__arxiv_id="2603.00001")[0]


def another_like_it() -> None:
    factories.make_paper(3, title="Block sparse attention, a third time",
                         abstract=Paper.objects.get(arxiv_id="2603.00001").abstract)  # fmt: skip
    factories.make_listing("cs.LG", factories.DAY + timedelta(1))


def of_paper(**fields: object) -> Callable[[], object]:
    return lambda: Paper.objects.filter(arxiv_id="2603.00001").update(**fields)


def reject_first_link() -> None:
    link = first_link()
    reader = User.objects.create_user("corrector")
    corrections.correct(link.paper, link.method, reader, about=False)


CHANGES: dict[str, tuple[Callable[[], object], str, bool]] = {
    "words": (of_paper(version=2, title_html="Another title"), "Another title", True),
    "authors": (of_paper(authors=[{"name": "Zoë Quine"}]), "Zoë Quine", True),
    "withdrawn": (of_paper(comment="This paper has been withdrawn."), "<b>Withdrawn.</b>", True),
    "a version": (
        lambda: PaperVersion.objects.create(
            paper=Paper.objects.get(arxiv_id="2603.00001"),
            number=2,
            title="T",
            abstract="A",
            announced_on=factories.DAY - timedelta(9),
        ),
        "announced 3 Mar 2026",
        True,
    ),
    "a claim": (report_a_claim, "Wall-clock of a claim", True),
    "a link": (reject_first_link, "Closest:", False),
    "a digest": (DigestEntry.objects.all().delete, 'id="why"', False),
    "a paper like it": (another_like_it, "/papers/2603.00003/", True),
    "a like one that was withdrawn": (
        lambda: Paper.objects.filter(arxiv_id="2603.00002").update(
            comment="This paper has been withdrawn.", enriched_at=timezone.now()
        ),
        "withdrawn,",
        True,
    ),
}


@pytest.mark.parametrize("changed", CHANGES)
def test_a_kept_page_goes_when_what_it_shows_changes(client: Client, changed: str) -> None:
    change, words, stands = CHANGES[changed]
    ada, _ = signed_in("ada")
    for one in (client, ada):
        assert (words in body(one)) is not stands
    change()
    for one in (client, ada):
        assert (words in body(one)) is stands


def test_a_summary_under_way_is_followed(client: Client) -> None:
    other = summary(2, state="waiting")
    mine = summary(state="waiting")
    assert "1 summary comes first" in body(client)
    Summary.objects.filter(pk=other.pk).update(state="done")
    assert "Waiting for the worker that makes summaries" in body(client)
    Summary.objects.filter(pk=mine.pk).update(state="running")
    assert "The model is reading the paper" in body(client)


def test_what_is_a_readers_own_nobody_else_sees(paper: Paper) -> None:
    ada, ada_user = signed_in("ada")
    eve, _ = signed_in("eve")
    secrets = ["Signed in as ada", "mine alone", "Secret list", "Secret interest"]
    said = {"note": "mine alone", "read_at": timezone.now()}
    LibraryEntry.objects.create(reader=ada_user, paper=paper, **said)
    ReadingList.objects.create(reader=ada_user, name="Secret list").papers.add(paper)
    interest = factories.make_profile("secret", name="Secret interest", owner=ada_user)
    factories.make_digest(interest, [paper])
    Star.objects.create(reader=ada_user, paper=paper)
    for order in ((ada, eve, Client()), (Client(), eve, ada)):  # whoever has it made, and kept
        paper.version += 1
        paper.save()
        pages = [body(one) for one in order]
        mine = pages[order.index(ada)]
        assert [one for one in secrets if one not in mine] == []
        assert "Read: mark as unread" in mine
        assert mine.count('aria-pressed="true"') == 2  # saved, and read
        for page in (pages[order.index(eve)], next(p for p in pages if "Sign in" in p)):
            assert [one for one in secrets if one in page] == []
            assert 'aria-pressed="true"' not in page
        tokens = {re.search(r'name="csrfmiddlewaretoken" value="(\w+)"', one) for one in pages}
        assert len({one and one[1] for one in tokens}) == 3  # two readers' and none


def test_what_a_reader_changes_shows_at_once(paper: Paper) -> None:
    ada, ada_user = signed_in("ada")
    assert "Mark as read" in body(ada)
    entry = LibraryEntry.objects.create(reader=ada_user, paper=paper, read_at=timezone.now())
    assert "Read: mark as unread" in body(ada)
    LibraryEntry.objects.filter(pk=entry.pk).update(note="noted since")
    assert "noted since" in body(ada)
    Star.objects.create(reader=ada_user, paper=paper)
    assert body(ada).count('aria-pressed="true"') == 2


def test_forms_of_readers_carry_each_ones_own_token(client: Client) -> None:
    address = "/papers/2603.00001/methods/sparse_attention/"
    form = f'action="{address}"'
    ada = Client(enforce_csrf_checks=True)
    ada.force_login(User.objects.create_user("ada"))
    assert form in body(signed_in("eve")[0])
    assert form not in body(client)
    page = body(ada)  # kept since the other's
    start = page.index(form)
    token = re.search(r'name="csrfmiddlewaretoken" value="(\w+)"', page[start : start + 500])
    assert token
    assert ada.post(address, {"about": "no"}).status_code == 403
    sent = {"about": "no", "csrfmiddlewaretoken": token[1]}
    assert ada.post(address, sent).status_code == 302
    link = MethodLink.objects.get(method="sparse_attention", paper__arxiv_id="2603.00001")
    assert link.confirmed is False
