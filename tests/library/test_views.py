"""A reader's library: what they keep, write, import and take along; nobody else's."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client

from tests import factories
from tests.papers.conftest import WEDNESDAY
from tests.servers.arxiv import ArxivServer
from webapp.api import tokens
from webapp.core import tasks
from webapp.library import importing, lists
from webapp.library.feedback import signals
from webapp.library.models import LibraryEntry, LikedText, ReadingList, Star
from webapp.library.references import references

pytestmark = pytest.mark.django_db


@pytest.fixture
def reader(client: Client) -> User:
    made: User = factories.make_reader()
    client.force_login(made)
    return made


def text(client: Client, address: str) -> str:
    return client.get(address).content.decode()


def test_a_note_read_state_and_lists_are_kept_and_found(client: Client, reader: User) -> None:
    paper = factories.make_paper(1)
    address = f"/library/papers/{paper.arxiv_id}/"
    back = client.post(address, {"read": "1", "next": f"/papers/{paper.arxiv_id}/"})
    assert back["Location"] == f"/papers/{paper.arxiv_id}/#library"
    sent = {"note": "**Bold** <script>x</script>", "new_list": "Wk"}
    client.post(address, sent)
    entry = LibraryEntry.objects.get(reader=reader)
    assert entry.read_at is not None
    page = text(client, f"/papers/{paper.arxiv_id}/")
    assert "<strong>Bold</strong>" in page
    assert "<script>x" not in page
    assert "Read: mark as unread" in page
    made = ReadingList.objects.get(name="Wk")
    for part in ("", "show=all", "show=read", "show=notes", f"list={made.pk}"):
        assert f'id="p-{paper.arxiv_id}"' in text(client, f"/library/?{part}"), part
    for part in ("show=saved", "show=unread", "show=left"):
        assert f'id="p-{paper.arxiv_id}"' not in text(client, f"/library/?{part}"), part
    assert paper.arxiv_id in text(client, "/library.bib")
    assert "**Bold**" in text(client, "/account/data.json")
    client.post(address, {"note": ""})  # no list ticked: it leaves them
    assert not made.papers.exists()
    client.post(f"/library/lists/{made.pk}/", {"do": "delete"})
    assert not ReadingList.objects.exists()


def test_a_row_that_was_read_stays_a_row(client: Client, reader: User) -> None:
    """Its class is one of two: joined they would be none, and the row without its looks."""
    factories.make_day(3)
    read = f"2603.{1:05d}"
    client.post(f"/library/papers/{read}/", {"read": "1"})
    for address in ("/", "/library/?show=read"):
        assert f'<article class="card read" id="p-{read}">' in re.sub(
            r"\s+", " ", text(client, address)
        )
    assert '<article class="card" id="p-2603.00002">' in re.sub(r"\s+", " ", text(client, "/"))


def test_an_empty_part_offers_no_search_and_a_full_one_says_what_it_removes(
    client: Client, reader: User
) -> None:
    empty = text(client, "/library/")
    assert "Nothing saved yet" in empty
    assert 'name="sort"' not in empty
    assert "0</b> papers" not in empty
    paper = factories.make_paper(1)
    Star.objects.create(reader=reader, paper=paper)
    LibraryEntry.objects.create(reader=reader, paper=paper, read_at=paper.submitted_at)
    left = factories.make_paper(2)
    LibraryEntry.objects.create(reader=reader, paper=left, not_for_me=True)
    listed = ReadingList.objects.create(reader=reader, name="Wk")
    listed.papers.add(paper)
    for part, said in (
        ("show=saved", "Remove from saved papers"), ("show=read", "Mark as unread"),
        ("show=left", "Undo “Not for me”"),
        (f"list={listed.pk}", "Remove from this list"),
    ):  # fmt: skip
        page = text(client, f"/library/?{part}")
        button = re.search(r'value="remove">\s*(.*?)\s*</button>', page)
        assert button
        assert button[1] == said
        assert 'name="sort"' in page
        none = text(client, f"/library/?{part}&q=wombat")
        assert "No paper found" in none
        assert 'value="wombat"' in none  # to be changed
        assert f'href="?{part}">Show all</a>' in none


def test_a_note_that_is_too_long_is_refused_and_nothing_is_lost(
    client: Client, reader: User
) -> None:
    paper = factories.make_paper(1)
    LibraryEntry.objects.create(reader=reader, paper=paper, note="kept")
    client.post(f"/library/papers/{paper.arxiv_id}/", {"note": "x" * 20_001})
    assert LibraryEntry.objects.get().note == "kept"
    assert "Nothing was saved" in text(client, f"/papers/{paper.arxiv_id}/")


def test_what_is_not_for_me_is_no_longer_saved(client: Client, reader: User) -> None:
    paper = factories.make_paper(1)
    Star.objects.create(reader=reader, paper=paper)
    headers = {"accept": "application/json"}
    answer = client.post("/library/leave/", {"paper": paper.arxiv_id}, headers=headers)
    assert answer.json() == {"left": True}
    assert not Star.objects.exists()
    back = client.post("/library/leave/", {"clear": paper.arxiv_id, "next": "//evil.example"})
    assert back["Location"] == f"/library/#p-{paper.arxiv_id}"
    assert not LibraryEntry.objects.get().not_for_me
    assert client.post("/library/leave/", {"paper": "none"}).status_code == 404


def test_a_paper_is_saved_or_not_for_me_as_was_said_last(client: Client, reader: User) -> None:
    paper = factories.make_paper(1)
    client.post("/library/leave/", {"paper": paper.arxiv_id})
    client.post("/star/", {"paper": paper.arxiv_id})
    assert not LibraryEntry.objects.get().not_for_me
    assert signals(reader).weights == {paper.pk: 1.0}
    token = tokens.make(reader, "test", ["library"])
    client.patch(
        f"/api/v1/library/{paper.arxiv_id}",
        {"not_for_me": True},
        content_type="application/json",
        headers={"Authorization": f"Bearer {token}"},
    )
    assert not Star.objects.exists()


def test_more_lists_than_there_may_be_are_refused_aloud(
    client: Client, reader: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lists, "MAX_LISTS", 1)
    address = f"/library/papers/{factories.make_paper(1).arxiv_id}/"
    for name in ("One", "Two", "One"):
        client.post(address, {"new_list": name})
    assert [one.name for one in ReadingList.objects.all()] == ["One"]
    assert "The limit is 1 lists" in text(client, "/library/")


def test_what_is_saved_and_read_is_not_unread(client: Client, reader: User) -> None:
    for number in (1, 2):
        Star.objects.create(reader=reader, paper=factories.make_paper(number))
    client.post("/library/papers/2603.00001/", {"read": "1"})
    page = text(client, "/library/?show=unread")
    assert [f'id="p-2603.0000{n}"' in page for n in (1, 2)] == [False, True]


def test_any_part_goes_to_a_reference_manager(client: Client, reader: User) -> None:
    for number in (1, 2):
        Star.objects.create(reader=reader, paper=factories.make_paper(number, doi=f"10.1/{number}"))
    assert text(client, "/library.bib?show=saved").count("@misc{") == 2
    assert text(client, "/library.ris").count("TY  - MANSCPT") == 2
    items = json.loads(text(client, "/library.csl.json"))
    assert {item["number"] for item in items} == {"arXiv:2603.00001", "arXiv:2603.00002"}
    assert items[0]["author"][0]["family"]
    assert items[0]["issued"]["date-parts"] == [[2026, 3, 11]]
    assert text(client, "/library.bib?show=notes") == ""


def test_nobody_sees_anothers_library(client: Client, reader: User) -> None:
    paper = factories.make_paper(1)
    other = factories.make_reader("other")
    LibraryEntry.objects.create(reader=other, paper=paper, note="secret")
    theirs = ReadingList.objects.create(reader=other, name="Theirs")
    theirs.papers.add(paper)
    Star.objects.create(reader=other, paper=paper)
    for address in ("/library/", f"/library/?list={theirs.pk}",
                    f"/papers/{paper.arxiv_id}/", "/library.bib"):  # fmt: skip
        page = text(client, address)
        assert not any(w in page for w in ("secret", "Theirs", "Delete this list")), address
        assert "/papers/" in address or paper.title not in page
    mine, another = ReadingList.objects.create(reader=reader, name="Mine"), factories.make_paper(2)
    addresses = [f"/library/lists/{folder.pk}/" for folder in (mine, theirs)]
    assert [client.post(address).status_code for address in addresses] == [302, 404]
    client.post(f"/library/papers/{another.arxiv_id}/", {"lists": [str(mine.pk), str(theirs.pk)]})
    assert [list(folder.papers.all()) for folder in (mine, theirs)] == [[another], [paper]]
    assert LibraryEntry.objects.get(reader=other).note == "secret"


BIBTEX = """
@misc{a, title = {{Sparse} Attention for {L}anterns}, eprint = {2603.00001}}
@article{b, title = "A Paper from {ICML}", abstract = {On $k$ things.}, year = 2019}
@comment{ignored}
"""
RIS = "TY  - UNPB\nTI  - Sparse attention\nUR  - https://arxiv.org/abs/2603.00001v2\nER  - \n"
CSL = json.dumps([{"title": "Old", "abstract": "Words."}, {"URL": "arxiv.org/abs/2603.00001"}])


@pytest.mark.parametrize(
    ("given", "became"),
    [
        ("2603.00001, https://arxiv.org/pdf/2603.00001v3 hep-th/9901001 2612.00001", (1, 0, 2)),
        (BIBTEX, (1, 1, 0)),
        (RIS, (1, 0, 0)),
        (CSL, (1, 1, 0)),
        ("[1, {]", (0, 0, 0)),
        ("nothing at all", (0, 0, 0)),
    ],
)
def test_papers_are_imported_as_they_are_named(
    client: Client, reader: User, given: str, became: tuple[int, int, int]
) -> None:
    factories.make_paper(1)
    page = client.post("/library/import/", {"text": given})
    done = page.context["done"]
    assert (done.starred, done.learned_from, len(done.unknown)) == became
    assert Star.objects.count() == became[0]
    again = client.post("/library/import/", {"text": given}).context["done"]
    assert (again.starred, again.learned_from) == (0, 0)
    assert LikedText.objects.count() == became[1]


def test_an_old_identifier_is_known_with_its_subject_class(client: Client, reader: User) -> None:
    for identifier in ("math/0309136", "cond-mat/9901001"):
        factories.make_paper(arxiv_id=identifier)
    given = "math.GT/0309136 and https://arxiv.org/abs/cond-mat.str-el/9901001v2"
    assert client.post("/library/import/", {"text": given}).context["done"].starred == 2


def test_a_file_is_read_and_nothing_is_an_error(client: Client, reader: User) -> None:
    factories.make_paper(1)
    file = SimpleUploadedFile("zotero.bib", BIBTEX.encode() + b"\xff")
    assert client.post("/library/import/", {"file": file}).context["done"].starred == 1
    assert client.post("/library/import/", {"text": " "}).status_code == 422


def test_titles_of_bibtex_lose_their_braces() -> None:
    assert [one.title for one in references(BIBTEX)] == [
        "Sparse Attention for Lanterns",
        "A Paper from ICML",
    ]


def test_a_paper_named_that_is_not_here_is_fetched_and_saved(
    client: Client, reader: User, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent: list[list[Any]] = []
    monkeypatch.setattr(tasks, "send", lambda _name, args, **_: not sent.append(args))
    with ArxivServer(today=WEDNESDAY) as arxiv:
        settings.ARXIV_API_URL, settings.ARXIV_SECONDS = arxiv.api_url, 0
        known = next(arxiv.corpus.latest()).arxiv_id
        page = client.post("/library/import/", {"text": f"{known} 2612.00001"})
        assert "The others were requested from arXiv" in page.content.decode()
        (arguments,) = sent
        assert [importing.save_named(*arguments) for _ in range(2)] == [1, 1]
    assert Star.objects.get(reader=reader).paper.arxiv_id == known


def test_while_no_worker_can_be_asked_the_page_says_so(
    client: Client, reader: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    def down(*_: object, **__: object) -> None:
        raise OSError("no broker")

    monkeypatch.setattr(tasks.app(), "send_task", down)
    page = client.post("/library/import/", {"text": "2612.00001"}).content.decode()
    assert "arXiv cannot be reached now: 2612.00001" in page


def test_the_librarys_first_address_leads_to_it(client: Client) -> None:
    assert client.get("/starred/")["Location"] == "/library/"
