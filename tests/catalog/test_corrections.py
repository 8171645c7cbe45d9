"""A reader's correction wins wherever it shows, is logged, undone, exported, checked and tested."""

from __future__ import annotations

import html
import json
import re
from io import StringIO
from pathlib import Path

import pytest
from django.contrib.auth.models import User
from django.core.management import call_command
from django.test import Client

from tests import factories
from tests.claims.tables.test_shown import MAIN, OTHERS
from webapp.catalog import cases, linking
from webapp.catalog.models import MethodLink
from webapp.claims.corrections import corrected_quotes, headline_of, quotes_of
from webapp.claims.extraction.quotes import quote_in, quotes
from webapp.claims.models import Correction
from webapp.claims.tables.shown import tables_of
from webapp.claims.tables.store import store_tables
from webapp.papers.models import Paper
from webapp.summaries.models import Claim

ABSTRACTS = Path("tests/claims/abstracts.json")
RECORDED = Path("tests/catalog/corrections.jsonl")
QUOTE = "It reduces memory by 4.2×"
ABSTRACT = (
    r"We propose Heron, a sparse attention. It reduces memory by $4.2\times$ and improves accuracy "
    r"by 2.7% over SnapKV."
)


@pytest.fixture
def paper(db: None) -> Paper:
    made = factories.make_paper(1, title="Heron: chosen blocks", abstract=ABSTRACT)
    store_tables(made, 1, (MAIN + OTHERS["a few methods"]).encode())
    return made


@pytest.fixture
def ada(client: Client, db: None) -> User:
    reader = User.objects.create_user("ada")
    client.force_login(reader)
    return reader


def page(client: Client, address: str = "/papers/2603.00001/") -> str:
    response = client.get(address)
    assert response.status_code == 200
    text = re.sub(r"<[^>]+>", " ", response.content.decode())
    return " ".join(html.unescape(text).split())


def correct(client: Client, kind: str, subject: str, **fields: str) -> str:
    """Send a form of the page, and return the page that answers."""
    form = {"kind": kind, "subject": subject} | fields
    response = client.post("/papers/2603.00001/corrections", form)
    assert response.status_code == 302
    return page(client, response["Location"])


def shown_quotes() -> list[str]:
    return [quote.text for quote in quotes_of(Paper.objects.get())]


def test_every_quote_is_found_again_by_its_own_words() -> None:
    found = [
        (abstract["abstract"], quote)
        for abstract in json.loads(ABSTRACTS.read_text())
        for quote in quotes(abstract["abstract"])
    ]
    assert len(found) > 30
    for abstract, quote in found:
        again = quote_in(abstract, quote.text)
        assert again is not None
        assert (again.text, again.numbers) == (quote.text, quote.numbers)


@pytest.mark.parametrize(
    "words",
    [
        *("", "   ", "memory", "It reduces memory by 5.2×", "duces memory by 4.2×", "by 4"),
        "It reduces memory by 4.2× on LongBench",
    ],
)
def test_no_words_that_the_abstract_has_not_become_a_quote(words: str) -> None:
    assert quote_in(ABSTRACT, words) is None


def test_a_quote_is_mended_hidden_and_undone(client: Client, paper: Paper, ada: User) -> None:
    assert shown_quotes() == [QUOTE, "improves accuracy by 2.7% over SnapKV."]
    assert "What it reports “It reduces memory by" in page(client)
    shown = correct(client, "quote", QUOTE, value="reduces  memory by 4.2x")
    assert shown_quotes()[0] == "reduces memory by 4.2×"
    assert "One correction" in shown
    correct(client, "quote", QUOTE, value="memory by 4.2×")  # the last one counts
    correct(client, "quote", "improves accuracy by 2.7% over SnapKV.", hide="yes")
    assert shown_quotes() == ["memory by 4.2×"]
    assert "2.7% over SnapKV" in page(client).split("2 corrections")[1]  # to be undone
    correct(client, "quote", QUOTE, undo="yes")
    assert shown_quotes() == ["reduces memory by 4.2×"]
    correct(client, "quote", QUOTE, undo="yes")
    correct(client, "quote", "improves accuracy by 2.7% over SnapKV.", undo="yes")
    assert shown_quotes() == [QUOTE, "improves accuracy by 2.7% over SnapKV."]
    assert Correction.objects.filter(reader=ada).exclude(undone_at=None).count() == 3


def test_a_number_that_the_rules_missed_is_added(client: Client, paper: Paper, ada: User) -> None:
    missed = "It has 12 layers"
    Paper.objects.update(abstract=f"We propose Heron. {missed}. It reduces memory by 4.2x.")
    computed = "It reduces memory by 4.2x."
    assert shown_quotes() == [computed]
    assert "Missing a number?" in page(client)
    shown = correct(client, "quote", "", value="has 12  layers", add="yes")
    assert shown_quotes() == ["has 12 layers", computed]  # in the abstract's order
    assert "Added: “has 12 layers”" in shown
    for words in (computed, "memory by 4.2x", "It has 13 layers", "It has", ""):
        correct(client, "quote", "", value=words, add="yes")
        assert shown_quotes() == ["has 12 layers", computed]  # nothing twice, and no other words
    correct(client, "quote", "has 12 layers", value=missed)
    assert shown_quotes() == [missed, computed]
    correct(client, "quote", "has 12 layers", hide="yes")
    assert shown_quotes() == [computed]
    for expected in (missed, "has 12 layers"):
        correct(client, "quote", "has 12 layers", undo="yes")
        assert shown_quotes()[0] == expected
    case = next(case for case in cases.cases() if case["subject"] == "has 12 layers")
    assert "instead of" in cases.disagreement(case)
    assert cases.disagreement(case | {"subject": computed, "value": computed}) == ""


def test_words_of_a_reader_s_own_are_refused(client: Client, paper: Paper, ada: User) -> None:
    answer = correct(client, "quote", QUOTE, value="It reduces memory by 9.9×")
    assert "The abstract has no such words with a number." in answer
    assert not Correction.objects.exists()


@pytest.mark.parametrize(
    "form",
    [
        {},
        {"kind": "quote"},
        {"kind": "link", "subject": "sparse_attention", "hide": "yes"},
        {"kind": "no_kind", "subject": "x", "hide": "yes"},
        {"kind": "claim", "subject": "x" * 4001, "hide": "yes"},
    ],
)
def test_other_forms_are_refused(
    client: Client, paper: Paper, ada: User, form: dict[str, str]
) -> None:
    assert client.post("/papers/2603.00001/corrections", form).status_code == 400
    assert not Correction.objects.exists()


def test_only_signed_in_readers_are_asked(client: Client, paper: Paper) -> None:
    assert "Wrong?" not in page(client)
    form = {"kind": "quote", "subject": QUOTE, "hide": "yes"}
    answer = client.post("/papers/2603.00001/corrections", form)
    assert answer["Location"].startswith("/sign-in/")
    assert not Correction.objects.exists()


def test_rows_feeds_and_the_api_follow(client: Client, paper: Paper, ada: User) -> None:
    factories.make_listing(paper.primary_category)
    factories.make_digest(factories.make_profile(), [paper])
    day = f"/digest/{factories.DAY}/"
    correct(client, "quote", QUOTE, hide="yes")
    assert headline_of(Paper.objects.get()) is not None
    for address in (day, "/api/v1/papers/2603.00001", "/api/v1/papers?q=Heron"):
        text = page(client, address)
        assert re.search(r"(“ ?|quote\W+)improves accuracy by 2.7%", text), address
        assert not re.search(r"(“ ?|quote\W+)It reduces memory", text)


def test_a_correction_of_words_that_are_gone_changes_nothing() -> None:
    changed = ABSTRACT.replace("2.7%", "3.7%")
    hidden = {"improves accuracy by 2.7% over SnapKV.": None}
    assert corrected_quotes(changed, hidden) == quotes(changed)


def test_the_own_row_and_the_main_table(client: Client, paper: Paper, ada: User) -> None:
    tables = tables_of(paper)
    assert tables.main is not None
    assert (tables.main.key, tables.main.own_label) == ("Table 1", "Heron")
    correct(client, "row", "Table 1", value="Lark")
    own = tables_of(Paper.objects.get()).main
    assert own is not None
    assert own.own_label == "Lark"
    assert [row.cells[0].text for row in own.rows if row.is_own] == ["Lark"]
    correct(client, "row", "Table 1", hide="yes")
    assert tables_of(Paper.objects.get()).all[1].has_own is False
    correct(client, "row", "Table 1", value="MATH")  # methods may stand over columns
    assert tables_of(Paper.objects.get()).all[0].own_columns == {2}
    correct(client, "row", "Table 1", value="No such row")
    assert Correction.objects.count() == 3
    correct(client, "main", "Table 2")
    assert [table.key for table in tables_of(Paper.objects.get()).all] == ["Table 2", "Table 1"]
    correct(client, "main", "Table 2", undo="yes")
    correct(client, "main", "Table 1", hide="yes")
    assert [table.key for table in tables_of(Paper.objects.get()).all] == ["Table 2", "Table 1"]
    correct(client, "main", "Table 1", undo="yes")
    for _ in range(3):
        correct(client, "row", "Table 1", undo="yes")
    assert tables_of(Paper.objects.get()).main == tables.main


def test_a_claim_of_a_model_is_hidden(client: Client, paper: Paper, ada: User) -> None:
    summary = factories.summarise(paper)
    claim = Claim.objects.create(
        summary=summary, position=0, metric="Memory", value="4.2", unit="×", quote=QUOTE,
        state="number and unit",
    )  # fmt: skip
    assert "Hide this result" in page(client)
    after = correct(client, "claim", claim.key, hide="yes")
    assert "Hide this result" not in after
    assert client.get("/api/v1/papers/2603.00001").json()["claims"] == []
    assert "Hide this result" in correct(client, "claim", claim.key, undo="yes")


def test_an_administrator_works_through_a_queue(client: Client, paper: Paper, ada: User) -> None:
    correct(client, "quote", QUOTE, hide="yes")
    correct(client, "row", "Table 1", value="Lark")
    linking.link(Paper.objects.all())
    method = MethodLink.objects.get().method
    client.post(f"/papers/2603.00001/methods/{method}/", {"about": "no"})
    assert client.get("/corrections/").status_code == 403
    client.force_login(User.objects.create_superuser("root"))
    assert "/corrections/" in client.get("/account/").content.decode()
    first, second, link = Correction.objects.all()
    assert "3 corrections that nobody has checked" in page(client, "/corrections/")
    client.post("/corrections/", {"keep": str(first.pk)})
    client.post("/corrections/", {"undo": str(second.pk)})
    client.post("/corrections/", {"undo": str(link.pk)})
    assert "Nothing to check." in page(client, "/corrections/")
    assert QUOTE not in shown_quotes()
    assert tables_of(Paper.objects.get()).all[0].own_label == "Heron"
    assert MethodLink.objects.get().confirmed is None
    assert client.post("/corrections/", {"keep": "999"}).status_code == 404


def test_corrections_are_among_a_reader_s_data_and_outlive_them(
    client: Client, paper: Paper, ada: User
) -> None:
    correct(client, "quote", QUOTE, hide="yes")
    (row,) = client.get("/account/data.json").json()["claims.correction"]
    assert (row["kind"], row["subject"]) == ("quote", QUOTE)
    ada.delete()
    assert QUOTE not in shown_quotes()


def test_one_command_makes_test_cases(
    client: Client, paper: Paper, ada: User, tmp_path: Path
) -> None:
    linking.link(Paper.objects.all())
    right = {
        "quote": ("no such quote", None),
        "row": ("Table 1", "Heron"),
        "main": ("Table 1", True),
    }
    wrong = {"quote": (QUOTE, None), "row": ("Table 1", "Lark"), "main": ("Table 2", True)}
    for kind, (subject, value) in [*right.items(), *wrong.items()]:
        Correction.objects.create(paper=paper, kind=kind, subject=subject, value=value)
    for method, about in (("sparse_attention", True), ("seps", True)):
        value = {"mechanism": None} if about else None
        Correction.objects.create(paper=paper, kind="link", subject=method, value=value)
    file, said = tmp_path / "cases.jsonl", StringIO()
    call_command("corrections", append=file, stdout=said)
    call_command("corrections", append=file, stdout=said)
    made = [json.loads(line) for line in file.read_text().splitlines()]
    # Of "Table 1" the last correction counts.
    assert said.getvalue().splitlines() == [
        "7 cases added; the rules disagree with 4.",
        "0 cases added; the rules disagree with 0.",
    ]
    assert {(case["kind"], case["subject"]) for case in made if cases.disagreement(case)} == {
        ("quote", QUOTE),
        ("row", "Table 1"),
        ("main", "Table 2"),
        ("link", "seps"),
    }


@pytest.mark.parametrize("line", RECORDED.read_text().splitlines())
def test_the_rules_agree_with_recorded_corrections(line: str) -> None:
    assert cases.disagreement(json.loads(line)) == ""
