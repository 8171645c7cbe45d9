"""The documents of a method, as pages that an argued answer links to."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from django.test import Client

from methods import registry
from webapp.catalog import reading, written

ARGUED = [
    (slug, claim.argument)
    for slug in registry.slugs()
    for claim in registry.get(slug).claims
    if claim.ruling
]

HOSTILE = """# A <script>alert(1)</script> heading

[script](javascript:alert(1)), [file](../../webapp/settings.py), [other](details.md#more),
[web](https://arxiv.org/abs/1904.10509) <img src=x onerror=alert(1)> ![a chart](chart.svg)

| a | b |
|---|--:|
| 1 | 2 |
"""


@pytest.mark.django_db
@pytest.mark.parametrize(("slug", "argument"), ARGUED)
def test_an_argued_answer_links_to_its_reasons(slug: str, argument: str, client: Client) -> None:
    document, _, heading = argument.partition("#")
    address = f"/methods/{slug}/documents/?file={document}"
    assert f'href="{address}#{heading}"' in client.get(f"/methods/{slug}/").content.decode()
    assert f' id="{heading}">' in client.get(address).content.decode()


@pytest.mark.parametrize("slug", registry.slugs())
def test_a_counted_answer_links_to_the_code_that_counts_it(slug: str) -> None:
    for claim in registry.get(slug).claims:
        if claim.counted:
            assert claim.counting_file in reading.paths(registry.get(slug)), claim.id
            assert reading.file(slug, claim.counting_file, "shapes").parts


def test_some_answers_are_argued() -> None:
    assert ARGUED


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of a method written by others."""
    (tmp_path / "README.md").write_text(HOSTILE)
    (tmp_path / "details.md").write_text("## More")
    monkeypatch.setattr(registry, "folder", lambda slug: tmp_path)
    return tmp_path


def test_a_document_holds_no_script_and_no_address_of_a_file(folder: Path) -> None:
    html = written.html("theirs", "README.md")
    for dangerous in ("<script", '="javascript:', "<img", "chart.svg", "settings.py", "style="):
        assert dangerous not in html, dangerous
    assert '<a href="?file=details.md#more"' in html
    assert '<a href="https://arxiv.org/abs/1904.10509"' in html
    assert 'tabindex="0"><table>' in html


def test_a_document_that_was_changed_is_read_again(folder: Path) -> None:
    assert "<h2" in written.html("theirs", "details.md")
    (folder / "details.md").write_text("Nothing more.")
    os.utime(folder / "details.md", (1, 1))
    assert "<h2" not in written.html("theirs", "details.md")


@pytest.mark.django_db
def test_only_the_documents_of_a_method_are_shown(client: Client) -> None:
    answer = client.get("/methods/seps/documents/?file=../../docs/security.md")
    assert answer.context["path"] == "README.md"
    assert client.get("/methods/none/documents/").status_code == 404


@pytest.mark.django_db
def test_a_method_without_documents_has_no_such_page(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(written, "paths", lambda slug: ())
    assert client.get("/methods/seps/documents/").status_code == 404
    assert "/methods/seps/documents/" not in client.get("/methods/seps/").content.decode()
