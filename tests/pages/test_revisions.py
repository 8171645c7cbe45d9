"""A page has one revision, which every kind of write to its data raises."""

from __future__ import annotations

from collections.abc import Callable
from io import StringIO
from uuid import uuid4

import pytest
from django.contrib.auth.models import User
from django.core.management import call_command
from django.db import connection, transaction
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from tests import factories
from webapp.core import revisions
from webapp.core.database import bring_up_to_date
from webapp.core.revisions import revision
from webapp.pages.revisions import WATCHES
from webapp.papers.models import Listing, Paper
from webapp.runs.models import Check, Event, Run

pytestmark = pytest.mark.django_db


def by_sql() -> None:
    with connection.cursor() as cursor:
        cursor.execute("UPDATE papers_paper SET title = 'By SQL'")


def in_bulk() -> None:
    papers = list(Paper.objects.all())
    for paper in papers:
        paper.title += "!"
    Paper.objects.bulk_update(papers, ["title"])


def upserted() -> None:
    papers = list(Paper.objects.all())
    for paper in papers:
        paper.title += "!"
    Paper.objects.bulk_create(
        papers, update_conflicts=True, unique_fields=["pk"], update_fields=["title"]
    )


def ignoring_conflicts() -> None:
    text = {"title": "T", "abstract": "A", "title_html": "T", "abstract_html": "A"}
    Paper.objects.bulk_create([Paper(arxiv_id="2603.00077", **text)], ignore_conflicts=True)


WRITES: dict[str, Callable[[], object]] = {
    "a new one": lambda: factories.make_paper(2),
    "update": lambda: Paper.objects.update(comment="Accepted."),
    "SQL": by_sql,
    "bulk_update": in_bulk,
    "bulk_create": upserted,
    "ignore_conflicts": ignoring_conflicts,
    "delete": Paper.objects.all().delete,
}


@pytest.mark.parametrize("write", WRITES)
def test_every_write_raises_it(write: str) -> None:
    factories.make_paper(1)
    before = revision("papers")
    WRITES[write]()
    assert revision("papers") != before


def test_what_no_page_shows_raises_nothing() -> None:
    factories.make_paper(1)
    before = revision("papers")
    Paper.objects.update(enrich_tries=3)
    Paper.objects.filter(title="no such").update(title="x")
    Paper.objects.update(title=Paper.objects.get().title)
    assert revision("papers") == before


def test_a_write_that_is_rolled_back_raises_nothing() -> None:
    factories.make_paper(1)
    before = revision("papers")
    with transaction.atomic():
        Paper.objects.update(title="x")
        assert revision("papers") != before
        transaction.set_rollback(True)
    assert revision("papers") == before


@pytest.mark.django_db(transaction=True)
def test_no_writer_waits_for_another() -> None:
    """Two transactions that raise the same scopes in different orders are no deadlock."""
    if connection.vendor == "sqlite":
        return  # it has one writer at a time
    papers = [factories.make_paper(number) for number in (1, 2)]
    listings = [factories.make_listing(category) for category in ("cs.CL", "cs.LG")]
    seen, other = [revision("papers", "listings")], connection.copy()
    try:
        with transaction.atomic(), other.cursor() as cursor:
            cursor.execute("BEGIN")
            cursor.execute("SET LOCAL lock_timeout = '3s'")
            Paper.objects.filter(pk=papers[0].pk).update(title="Changed")
            cursor.execute("UPDATE papers_listing SET reason = 'x' WHERE id = %s", [listings[1].pk])
            Listing.objects.filter(pk=listings[0].pk).update(reason="x")
            cursor.execute("UPDATE papers_paper SET title = 'x' WHERE id = %s", [papers[1].pk])
            cursor.execute("COMMIT")
            seen.append(revision("papers", "listings"))
        seen.append(revision("papers", "listings"))
    finally:
        other.close()
    assert seen[0] != seen[1] == seen[2]
    Paper.objects.update(title="Once more")
    assert revision("papers", "listings") not in seen


@pytest.mark.django_db(transaction=True)
def test_triggers_are_away_while_tables_change_and_all_is_shown_anew_after() -> None:
    factories.make_paper(1)
    before = revision("papers")
    call_command("migrate", "digests", "0014_drop_best_since", verbosity=0)
    try:
        assert not revisions.is_installed()
        Paper.objects.update(title="By a migration")
        assert revision("papers") == before
    finally:
        call_command("migrate", verbosity=0)
    assert revisions.is_installed()
    assert revision("papers") != before


def test_a_start_installs_triggers_that_are_missing_or_of_other_watches(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for watches in ([], WATCHES[:3], WATCHES):
        with monkeypatch.context() as patch:
            patch.setattr(revisions, "_watches", watches)
            bring_up_to_date()
            assert revisions.is_installed()
    before = revision("papers")
    factories.make_paper(1)
    assert revision("papers") != before
    revisions.remove()
    before = revision("papers")
    bring_up_to_date()
    assert revision("papers") != before, "what was written without triggers is not known"


def test_every_column_that_a_watch_names_is_there() -> None:
    for watch in WATCHES:
        with connection.cursor() as cursor:
            table = connection.introspection.get_table_description(cursor, watch.table)
        named = {*watch.columns, *watch.hidden, watch.key}
        assert named <= {column.name for column in table}, watch.table
        assert not watch.columns or watch.work, f"{watch.table}: a page shows any other column too"


def test_a_column_that_is_added_is_watched_without_being_listed() -> None:
    """Fails if shown columns are listed by hand: the new one would leave pages stale for good."""
    factories.make_paper(1)
    revisions.remove()
    with connection.cursor() as cursor:
        cursor.execute("ALTER TABLE papers_paper ADD COLUMN page_count integer")
    revisions.install()
    before = revision("papers")
    with connection.cursor() as cursor:
        cursor.execute("UPDATE papers_paper SET page_count = 12")
    changed = revision("papers")
    assert changed != before
    with connection.cursor() as cursor:
        cursor.execute("UPDATE papers_paper SET page_count = 12")
    assert revision("papers") == changed
    with connection.cursor() as cursor:
        revisions.remove()
        cursor.execute("ALTER TABLE papers_paper DROP COLUMN page_count")
    revisions.install()


def test_a_scope_is_raised_alone() -> None:
    one, two = (factories.make_profile(name) for name in ("one", "two"))
    papers = [factories.make_paper(1)]
    factories.make_digest(two, papers)
    before = revision("profile:two")
    factories.make_digest(one, papers)
    assert revision("profile:two") == before
    assert revision("profile:one")


@pytest.fixture
def ended() -> Run:
    """A public run that has ended, of a reader."""
    call_command("import_results", "benchmarks/results/sparse_attention", stdout=StringIO())
    run = Run.objects.filter(state="succeeded").order_by("pk")[0]
    Run.objects.filter(pk=run.pk).update(reader=User.objects.create_user("ada"))
    return run


def test_an_ended_runs_page_shows_what_came_late(client: Client, ended: Run) -> None:
    def shown() -> str:
        return client.get(f"/runs/{ended.pk}/").content.decode()

    assert "the last words" not in shown()
    body = {"text": "the last words", "offset": 0, "size": 14}
    Event.objects.create(
        run=ended, token=ended.token, seq=990, kind="log", body=body, recorded_at=timezone.now()
    )
    assert "the last words" in shown()
    first = ended.checks.all()[0]
    Check.objects.filter(pk=first.pk).update(label="named late")
    assert "named late" in shown()


def test_an_ended_runs_page_names_its_reader_as_they_are_called_now(
    client: Client, ended: Run
) -> None:
    address = f"/runs/{ended.pk}/"
    assert "ada" in client.get(address).content.decode()
    User.objects.filter(username="ada").update(username="grace-hopper")
    assert "grace-hopper" in client.get(address).content.decode()


def test_the_list_of_runs_shows_a_run_that_is_new_and_its_state(client: Client, ended: Run) -> None:
    def shown() -> str:
        return client.get("/runs/").content.decode()

    waits = 'class="state waiting"'
    assert waits not in shown()
    new = Run.objects.get(pk=ended.pk)
    new.pk, new.state, new.idempotency_key = uuid4(), "queued", None
    new.save(force_insert=True)
    assert shown().count(f"/runs/{new.pk}/") == 1
    assert waits in shown()
    Run.objects.filter(pk=new.pk).update(state="cancelled")
    assert f"/runs/{new.pk}/" in shown()
    assert waits not in shown()
    Run.objects.filter(pk=new.pk).delete()
    assert f"/runs/{new.pk}/" not in shown()


UNCHANGED = (
    *("/", "/digest.rss", "/digest.atom", "/digest.json", "/feeds/opml", "/p/other.rss"),
    *("/category/cs.CL/", "/category/cs.CL.rss", "/search?q=paper", "/search.rss?q=paper"),
    *("/methods/", "/methods/sparse_attention/", "/methods/sparse_attention.rss"),
    *("/runs.rss", "/runs/", "/runs/?state=ended"),
)


def test_what_did_not_change_is_one_lookup(client: Client, ended: Run) -> None:
    factories.make_listing("cs.CL")
    paper = factories.make_paper(1, title="A paper of boats")
    factories.make_digest(factories.make_profile(), [paper])
    factories.make_digest(factories.make_profile("other"), [paper])
    for address in UNCHANGED:
        first = client.get(address)
        assert first.status_code == 200, address
        tag = first["ETag"]
        with CaptureQueriesContext(connection) as queries:
            again = client.get(address, headers={"If-None-Match": tag})
        assert (again.status_code, len(queries)) == (304, 1), address


def test_a_kept_search_finds_what_was_stored_since(client: Client) -> None:
    factories.make_paper(1, title="A paper of boats")
    for address in ("/search?q=boats", "/search.rss?q=boats"):
        assert "Another of boats" not in client.get(address).content.decode()
    factories.make_paper(2, title="Another of boats")
    for address in ("/search?q=boats", "/search.rss?q=boats"):
        assert "Another of" in client.get(address).content.decode(), address
