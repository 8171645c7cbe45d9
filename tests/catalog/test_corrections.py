"""A reader's correction wins wherever it shows, is logged, undone, exported, checked and tested."""

from __future__ import annotations

import html
import json
import re
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.management import call_command
from django.test import Client
from pytest_httpserver import HTTPServer

from tests import factories
from tests.claims.tables.test_reading import tables_of as read_tables
from tests.claims.tables.test_shown import HEAD, MAIN, OTHERS
from tests.claims.tables.test_shown import page as table_page
from tests.summaries.test_careless import answer
from webapp.catalog import cases, linking
from webapp.catalog.models import MethodLink
from webapp.claims.corrections import corrected_quotes, headline_of, quotes_of
from webapp.claims.extraction.quotes import quote_in, quotes
from webapp.claims.models import Correction, TableReading
from webapp.claims.tables.cells import cells_by_name, with_texts
from webapp.claims.tables.shown import tables_of
from webapp.claims.tables.store import store_tables
from webapp.papers.models import Paper
from webapp.summaries.models import Claim
from webapp.summaries.schema import PaperSummary
from webapp.summaries.summarise import check_again

ABSTRACTS = Path("tests/claims/abstracts.json")
RECORDED = Path("tests/catalog/corrections.jsonl")
PAGE = "/papers/2603.00001/"
OTHERWISE = "the paper contradicts its first sentence"
NOT_GIVEN = "the paper does not give the numbers of its first sentence in this way"
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


def correct(client: Client, kind: str, subject: str, /, **fields: str) -> str:
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


def correct_cell(client: Client, row: int, column: int, /, **fields: str) -> str:
    reading = TableReading.objects.get()
    form = {
        "row": str(row + 1),
        "column": str(column + 1),
        "reading": str(int(reading.read_at.timestamp())),
    }
    return correct(client, "cell", "Table 1", **(form | fields))


def cells() -> list[list[str]]:
    main = next(t for t in tables_of(Paper.objects.get()).all if t.key == "Table 1")
    return [[cell.text if cell else "" for cell in row] for row in main.table.grid.rows]


def test_a_cell_is_mended_hidden_and_undone(client: Client, paper: Paper, ada: User) -> None:
    before = cells()
    assert "“49.1” → “51.3”" in correct_cell(client, 5, 1, value=" 51.3 ")
    assert cells()[5] == ["Heron", "51.3", "19.2"]
    assert "Hidden: “49.1”" in correct_cell(client, 5, 1, hide="yes")
    assert cells()[5] == ["Heron", "–", "19.2"]
    for expected in ("51.3", "49.1"):
        correct(client, "cell", Correction.objects.latest("pk").subject, undo="yes")
        assert cells()[5][1] == expected
    assert cells() == before


def test_a_correction_of_any_cell_changes_no_other() -> None:
    for (table,) in map(read_tables, (MAIN, *OTHERS.values())):
        names = cells_by_name("Table", table)
        assert len(names) == sum(map(len, table.grid.rows))
        for name, cell in names.items():
            for text in ("77.7", None):
                changed = with_texts("Table", table, {name: text})
                differing = [
                    (before, after)
                    for row, new_row in zip(table.grid.rows, changed.grid.rows, strict=True)
                    for before, after in zip(row, new_row, strict=True)
                    if before != after
                ]
                assert [(before, after.text) for before, after in differing] == [
                    (cell, text or "–")
                ]
            hidden = {value.cell: value for value in changed.values}
            for value in table.values:
                related = value.cell.row == cell.row or cell.column in {0, value.cell.column}
                assert related or hidden[value.cell] == value


def test_a_corrected_cell_wins_wherever_it_is_shown(
    client: Client, paper: Paper, ada: User
) -> None:
    summary = factories.summarise(paper)
    claim = Claim.objects.create(
        summary=summary, position=0, metric="GSM8K", subject="Heron", value="51.3",
        quote="Heron reaches 51.3 on GSM8K.", state="number and unit",
    )  # fmt: skip
    correct_cell(client, 5, 1, value="51.3")  # Heron on GSM8K, read as 49.1
    correct_cell(client, 1, 0, value="Wren-2")
    correct_cell(client, 0, 2, value="MATH-500")
    assert re.search(r"MATH-500 Wren-2 40\.1 .* Heron 51\.3 ", page(client))
    claim.refresh_from_db()
    assert claim.assigned
    read = client.get("/api/v1/papers/2603.00001/tables").json()["tables"][0]
    assert "| Heron | 51.3 | 19.2 |" in read["markdown"]
    value = next(value for value in read["values"] if value["text"] == "51.3")
    assert (value["value"], value["row_label"], value["own"]) == ("51.3", ["Heron"], True)
    corrected = {v["text"]: v["corrected_from"] for v in read["values"] if v["corrected_from"]}
    assert corrected == {"51.3": "49.1"}
    assert not [value for value in read["values"] if value["text"] == "49.1"]
    assert {"Wren-2", "MATH-500"} <= {
        text for value in read["values"] for text in value["row_label"] + value["head_path"]
    }
    correct(client, "cell", Correction.objects.earliest("pk").subject, undo="yes")
    claim.refresh_from_db()
    assert not claim.assigned


def test_the_own_row_keeps_its_mark_when_its_label_is_mended(
    client: Client, paper: Paper, ada: User
) -> None:
    correct(client, "row", "Table 1", value="Lark")
    correct_cell(client, 3, 0, value="Lark (large)")
    main = tables_of(Paper.objects.get()).main
    assert main is not None
    assert main.own_label == "Lark (large)"
    correct(client, "row", "Table 1", value="Lark (large)")
    main = tables_of(Paper.objects.get()).main
    assert main is not None
    assert [row.cells[0].text for row in main.rows if row.is_own] == ["Lark (large)"]


@pytest.mark.parametrize(
    "fields",
    [
        {"value": ""},
        {"value": " \u200b "},
        {"value": "x" * 301},
        {"value": "1", "row": "99"},
        {"value": "1", "column": "99"},
        {"value": "1", "reading": "1"},
        {"value": "1", "subject": "Table 9"},
    ],
)
def test_no_other_cell_and_no_other_text_is_taken(
    client: Client, paper: Paper, ada: User, fields: dict[str, str]
) -> None:
    correct_cell(client, 5, 1, **fields)
    assert not Correction.objects.exists()


@pytest.mark.parametrize("row", [1, 60, 61, 62, 199])
def test_a_cell_of_any_row_of_a_long_table_is_corrected(
    client: Client, paper: Paper, ada: User, row: int
) -> None:
    rows = [(f"Model {n}", f"{n}.5", f"{n}.7") for n in range(1, 200)]
    store_tables(paper, 1, table_page("Table 1: Accuracy of all.", HEAD, *rows).encode())
    field = re.search(r'<input type="number" name="row"[^>]*>', client.get(PAGE).content.decode())
    assert field
    assert 'min="1" max="200"' in field[0]
    correct_cell(client, row, 1, value="51.3")
    assert cells()[row] == [f"Model {row}", "51.3", f"{row}.7"]


@pytest.mark.usefixtures("ada")
@pytest.mark.parametrize(
    ("gist", "before", "after"),
    [
        ("Heron outperforms Lark on GSM8K.", "", OTHERWISE),
        ("Lark outperforms Heron on GSM8K.", OTHERWISE, ""),
        ("Heron reaches 49.1 on GSM8K.", "", NOT_GIVEN),
        ("Heron reaches 12.5 on GSM8K.", NOT_GIVEN, ""),
    ],
)
def test_a_first_sentence_is_checked_again_after_a_correction(
    client: Client, paper: Paper, gist: str, before: str, after: str
) -> None:
    """Heron has 49.1 on GSM8K and Lark 42.1; a reader corrects Heron's to 12.5."""
    store_tables(paper, 1, MAIN.replace("GSM8K", "GSM8K ↑").encode())
    content = PaperSummary.model_validate(answer(gist=gist)).model_dump()
    summary = factories.summarise(paper, gist=gist, content=content)
    check_again(paper)
    summary.refresh_from_db()
    for text, expected in (("49.1", before), ("12.5", after), ("", before)):
        if text == "12.5":
            correct_cell(client, 5, 1, value=text)
        elif not text:
            correct(client, "cell", Correction.objects.get().subject, undo="yes")
        summary.refresh_from_db()
        faults = summary.withheld if summary.withheld in {OTHERWISE, NOT_GIVEN} else ""
        assert faults == expected
        assert ("otherwise" in summary.gist_html) == (expected == OTHERWISE)


def test_a_corrected_cell_survives_a_new_reading_or_is_listed(
    client: Client, paper: Paper, ada: User
) -> None:
    correct_cell(client, 5, 1, value="51.3")
    head, *body = MAIN.split("<tr")
    moved = "<tr".join([head, body[0], body[-1].replace("</table></figure>", ""), *body[1:-1]])
    store_tables(paper, 1, (OTHERS["a few methods"] + moved + "</table></figure>").encode())
    assert cells()[1] == ["Heron", "51.3", "19.2"]
    assert "no longer applies" not in page(client)
    store_tables(paper, 1, MAIN.replace("49.1", "48.8").encode())
    assert cells()[5] == ["Heron", "48.8", "19.2"]
    assert "no longer applies" in page(client)
    assert Correction.objects.filter(undone_at=None).exists()
    client.force_login(User.objects.create_superuser("root"))
    assert "Heron × GSM8K: “49.1” → “51.3” (no longer applies" in page(client, "/corrections/")
    store_tables(paper, 1, MAIN.encode())
    assert cells()[5] == ["Heron", "51.3", "19.2"]


def test_a_corrected_cell_becomes_a_test_case_with_its_html(
    client: Client, paper: Paper, ada: User, httpserver: HTTPServer, settings: Any
) -> None:
    settings.ARXIV_SITE_URL, settings.ARXIV_SECONDS = httpserver.url_for("").rstrip("/"), 0
    correct_cell(client, 5, 1, value="51.3")
    correct_cell(client, 4, 2, hide="yes")
    assert list(cases.cases()) == []  # arXiv has no such page now
    body = f"<article><p>Text.</p>{OTHERS['a few methods']}{MAIN}</article>"
    httpserver.expect_request("/html/2603.00001v1").respond_with_data(body)
    mended, hidden = cases.cases()
    assert "Table 1" in mended["html"]
    assert "Table 2" not in mended["html"]
    assert "49.1" in cases.disagreement(mended)
    assert cases.disagreement(mended | {"html": MAIN.replace("49.1", "51.3")}) == ""
    assert cases.disagreement(mended | {"html": MAIN.replace("49.1", "50")}) != ""
    assert cases.disagreement(hidden) != ""
    assert cases.disagreement(hidden | {"html": MAIN.replace("13.2", "")}) == ""


def test_a_claim_of_a_model_is_hidden(client: Client, paper: Paper, ada: User) -> None:
    summary = factories.summarise(paper)
    claim = Claim.objects.create(
        summary=summary, position=0, metric="Memory", value="4.2", unit="×", quote=QUOTE,
        state="number and unit",
    )  # fmt: skip
    assert "Hide this result" in page(client)
    after = correct(client, "claim", claim.key, hide="yes")
    assert "Hide this result" not in after
    assert client.get("/api/v1/papers/2603.00001").json()["results"] == []
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
    assert "3 unchecked corrections" in page(client, "/corrections/")
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
