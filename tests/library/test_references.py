"""Exports of reference managers and publishers, and the cost of hostile text."""

from __future__ import annotations

import json
import threading
from contextlib import suppress
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.files.uploadedfile import SimpleUploadedFile
from django.db import connection
from django.test import Client

from tests.processes import PATIENCE
from webapp.core import sandbox
from webapp.core.encodings import decoded
from webapp.core.sandbox import UnreadableError
from webapp.library import importing
from webapp.library.models import LikedText, Star
from webapp.library.references import MAX_REFERENCES, Reference, references
from webapp.papers.models import Paper


def named(text: str) -> list[tuple[str, str]]:
    return [(one.arxiv_id, one.title) for one in references(text)]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("@article{x, doi={10.48550/arXiv.2301.01234}, title={T}}", [("2301.01234", "T")]),
        (
            "@misc{a, title={Good Coder}, abstract={pass@1 (one try)}, eprint={2301.01234}}",
            [("2301.01234", "Good Coder")],
        ),
        ("@misc{a, title={Hit@k {Rates}}, eprint={2301.01234}}", [("2301.01234", "Hit@k Rates")]),
        ("@comment{@misc{a, title={Hidden}}} @misc{b,\n title={Seen}}", [("", "Seen")]),
        ("@Comment{jabref-meta: x;}\n@misc{b, title={Seen}}", [("", "Seen")]),
        (
            '@string{n = "Neur"}\n@string{m = n # "IPS"}\n@misc{b, title = "At " # M # { {two}}}',
            [("", "At NeurIPS two")],
        ),
        ("@misc(b, title={In (round) brackets}, year=2024)", [("", "In (round) brackets")]),
        ("@misc{b, title={No comma} year={2024}}\n@misc{c, title={Next}}",
         [("", "No comma"), ("", "Next")]),
        ("@misc{b, title={Open}\n\n@misc{c, title={Next}}", [("", "Open"), ("", "Next")]),
        ('@misc{b, title="A ``{Q}uote\'\' of Sch{\\"o}lkopf"}', [("", "A “Quote” of Schölkopf")]),
        ("@article{k, journal={CoRR}, volume={abs/2301.01234}, title={T}}", [("2301.01234", "T")]),
        ("@article{k, journal={arXiv preprint arXiv:2301.01234}}", [("2301.01234", "")]),
        (
            "@misc{k, title={T}, abstract={Builds on arXiv:2412.00001}, doi={10.1234/2012.12345}}",
            [("", "T")],
        ),
        ("@misc{Cole et al. 2023, title={T}, eprint={2301.01234}}", [("2301.01234", "")]),
        ("@misc{b, title={T} url = {https://arxiv.org/abs/2301.01234}}", [("2301.01234", "T")]),
        ("@misc{b, title={Open}, eprint={2301.01234}", [("2301.01234", "Open")]),
        ("@misc{b, title={T}, % a note\n eprint={2301.01234}}\n@misc{c, eprint={2301.01235}}",
         [("2301.01234", "T"), ("2301.01235", "")]),
        ("@misc{b, title={T}, abstract={We extend url={arXiv} 2412.00001}}", [("", "T")]),
        ("@misc{k, eprint={hep-th/9901001}, month=jan, title={T}}", [("hep-th/9901001", "T")]),
    ],
)  # fmt: skip
def test_bibtex(text: str, found: list[tuple[str, str]]) -> None:
    assert named(text) == found


def test_bibtex_does_not_remember_the_macros_of_another_file() -> None:
    named('@string{secret = "One"}\n@misc{a, title = secret}')
    assert named("@misc{a, title = secret # {Two}}") == [("", "Two")]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (
            "TY  - JOUR\nTI  - A long title\n  wraps around\nAB  - First.\nSecond line.\nER  -",
            [Reference("", "A long title wraps around", "First. Second line.")],
        ),
        (
            "TY  - JOUR\nT1  - No end\nTY  - JOUR\nTI  - Next\n",
            [Reference("", "No end"), Reference("", "Next")],
        ),
        (
            "TY  - JOUR\nTI  - Two\nDO  - 10.1000/x\nDO  - 10.48550/arXiv.2301.01234\nER  - \n",
            [Reference("2301.01234", "Two")],
        ),
        ("1.\r\nTY  - JOUR\r\nTI  - CR LF\r\nER  -\r\n\r\n", [Reference("", "CR LF")]),
        ("TY - JOUR\nTI - One blank\nUR - http://arxiv.org/abs/2301.01234v2\nER -",
         [Reference("2301.01234", "One blank")]),
        ("TY  - JOUR\nTI  - T\nN2  - Builds on arXiv:2412.00001\nER  - ",
         [Reference("", "T", "Builds on arXiv:2412.00001")]),
    ],
)  # fmt: skip
def test_ris(text: str, found: list[Reference]) -> None:
    assert references(text) == found


CROSSREF = {
    "status": "ok",
    "message": {
        "items": [
            {
                "DOI": "10.1000/xyz",
                "title": ["A paper <i>in</i> print"],
                "abstract": "<jats:p>It is short.</jats:p>",
                "URL": "https://doi.org/10.1000/xyz",
            }
        ]
    },
}


@pytest.mark.parametrize(
    ("data", "found"),
    [
        ([{"id": "a", "title": "T", "DOI": "10.48550/arXiv.2301.01234"}], [("2301.01234", "T")]),
        ({"items": [{"title": "T", "URL": "http://arxiv.org/abs/2301.01234v1"}]},
         [("2301.01234", "T")]),
        ({"items": [{"itemType": "preprint", "title": "T", "url": "http://arxiv.org/abs/2301.01234v1"}]},
         [("2301.01234", "T")]),
        ({"title": "One item", "number": "arXiv:2301.01234"}, [("2301.01234", "One item")]),
        (CROSSREF, [("", "A paper in print")]),
        (CROSSREF["message"], [("", "A paper in print")]),
        ({"title": None, "DOI": 3}, [("", "")]),
        ([1, "x", None], []),
    ],
)  # fmt: skip
def test_csl(data: object, found: list[tuple[str, str]]) -> None:
    assert named(json.dumps(data)) == found


@pytest.mark.parametrize("codec", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "cp1252"])
def test_a_file_is_read_in_its_encoding(codec: str) -> None:
    text = "TY  - JOUR\r\nTI  - Größe of a thing\r\nER  - \r\n"
    assert named(decoded(text.encode(codec))) == [("", "Größe of a thing")]


def test_running_text_names_papers_and_neither_prices_nor_other_dois() -> None:
    text = """See arXiv:2301.01234v2, https://arxiv.org/pdf/2302.00001v1.pdf,
    10.48550/arXiv.2303.00002 and hep-th/9901001; not 10.1234/2012.12345, $2012.1234,
    2012.1234 EUR, 9913.12345 or 1.2301.01234."""
    assert [one.arxiv_id for one in references(text)] == [
        "2301.01234",
        "2302.00001",
        "2303.00002",
        "hep-th/9901001",
    ]


HOSTILE = {
    "unclosed": "@article{a, title={x " * 4_000,
    "entries without names": "@a-b{x y}" * 200_000,
    "unclosed, at the limit": "@article{a, title={x " * 95_000,
    "braces": "@a{b, t=" + "{" * 1_900_000,
    "quotes": '@a{b,t="' + 'x "{' * 400_000,
    "comments": "@comment{" * 200_000 + "\n@misc{a, title={x}}",
    "macros": '@string{a="xxxxxxxxxx"}\n' + "@string{a=a#a}\n" * 100 + "@misc{b, title=a}",
    "a macro of macros": f'@string{{a="{"x" * 20_000}"}}\n@misc{{b, title={"a#" * 300_000}a}}',
    "RIS": "TY  - JOUR\n" * 180_000,
    "RIS lines": "TY  - JOUR\nTI  - x\n" + "more\n" * 380_000,
    "JSON": "[" * 1_000_000,
    "ids": "2301.01234 " * 180_000,
    "dots": "2301." * 390_000,
    "dois": "10.1234/" * 240_000,
}


@pytest.mark.parametrize("name", sorted(HOSTILE))
def test_hostile_text_is_read_or_refused_in_time(name: str) -> None:
    with suppress(UnreadableError):
        assert len(sandbox.run(references, HOSTILE[name], seconds=2)) <= MAX_REFERENCES


@pytest.mark.django_db
def test_a_file_that_takes_too_long_says_so_and_saves_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(importing, "SECONDS", 1)
    reader = User.objects.create_user("reader")
    client = Client()
    client.force_login(reader)
    file = SimpleUploadedFile("x.bib", HOSTILE["unclosed, at the limit"].encode())
    answer = client.post("/library/import/", {"text": "", "file": file})
    assert answer.status_code == 422
    assert "This cannot be imported: it could not be read within" in answer.content.decode()
    assert not LikedText.objects.exists()


@pytest.mark.django_db(transaction=True)
def test_nothing_is_locked_while_a_text_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another connection writes in the middle of an import."""
    reader = User.objects.create_user("reader")
    paper = Paper.objects.create(arxiv_id="2301.00001", title="T", abstract="A")
    began, may_end = threading.Event(), threading.Event()

    read = sandbox.run

    def slowly(*arguments: Any, **named: Any) -> Any:
        began.set()
        assert may_end.wait(PATIENCE)
        return read(*arguments, **named)

    monkeypatch.setattr(sandbox, "run", slowly)

    def run() -> None:
        importing.import_liked(reader, "2301.00001")
        connection.close()

    thread = threading.Thread(target=run)
    thread.start()
    assert began.wait()
    Paper.objects.filter(pk=paper.pk).update(title="Written meanwhile")
    may_end.set()
    thread.join()
    assert Star.objects.filter(reader=reader, paper=paper).exists()


@pytest.mark.parametrize(
    ("title", "shown"),
    [
        (r"On \{ alone", "On { alone"),
        (r"On \} alone", "On } alone"),
        (r"A \{pair\} of {B}races", "A {pair} of Braces"),
        (r"\textbf{Bold} and \"{o}", "Bold and ö"),
    ],
)
def test_an_escaped_brace_ends_no_field(title: str, shown: str) -> None:
    text = f"@article{{a, title = {{{title}}}, eprint = {{2301.01234}}}}\n"
    text += "@article{b, title = {Next}, eprint = {2301.01233}}"
    first, second = references(text)
    assert (first.title, first.arxiv_id) == (shown, "2301.01234")
    assert (second.title, second.arxiv_id) == ("Next", "2301.01233")


def test_zoteros_own_json_is_read() -> None:
    data = {"itemType": "preprint", "title": "Owls", "abstractNote": "They hoot."}
    items = [
        {"key": "A", "version": 1, "data": data | {"archiveID": "arXiv:2301.01234"}},
        {"key": "B", "version": 1, "data": data | {"reportNumber": "arXiv:2301.01233 [cs.CL]"}},
    ]
    read = references(json.dumps(items))
    assert [(each.arxiv_id, each.title, each.abstract) for each in read] == [
        ("2301.01234", "Owls", "They hoot."),
        ("2301.01233", "Owls", "They hoot."),
    ]
