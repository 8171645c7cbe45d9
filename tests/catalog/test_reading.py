"""The page of a method's code: every line, three levels, equations as MathML, stale files."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from django.test import Client

from methods import registry
from webapp.catalog import reading

pytestmark = pytest.mark.django_db


def text(html: str) -> str:
    return re.sub(r"<[^>]+>", "", html)


@pytest.mark.parametrize("slug", ["concept_lm", "seps", "sparse_attention"])
@pytest.mark.parametrize("level", ["code", "equations", "shapes"])
def test_every_line_stands_once(slug: str, level: str) -> None:
    for file in reading.files(slug, level):
        source = (registry.folder(slug) / file.path).read_text()
        rows = [row for part in file.parts for row in part.rows]
        assert [row.number for row in rows] == list(range(1, len(source.splitlines()) + 1))
        shown = [text(row.html).replace("&lt;", "<").replace("&gt;", ">") for row in rows]
        shown = [one.replace("&quot;", '"').replace("&#39;", "'") for one in shown]
        assert [one.replace("&amp;", "&") for one in shown] == source.splitlines()
        assert not file.stale


@pytest.mark.parametrize("slug", ["concept_lm", "seps", "sparse_attention"])
def test_every_equation_becomes_mathml(slug: str) -> None:
    found = [
        formula.html
        for file in reading.files(slug, "equations")
        for part in file.parts
        for formula in part.formulas
    ]
    assert found
    assert [html for html in found if not html.startswith("<math")] == []


def test_levels_are_in_the_address(client: Client) -> None:
    shapes = client.get("/methods/seps/code/").content.decode()
    assert 'class="bound">logits (3, 16, 4) float32' in shapes
    assert '<a href="?level=shapes" aria-current="page">Shapes</a>' in shapes
    equations = client.get("/methods/seps/code/?level=equations").content.decode()
    assert "<math" in equations
    assert 'class="bound"' not in equations
    code = client.get("/methods/seps/code/?level=code").content.decode()
    assert "<math" not in code
    assert 'id="align-L1"' in code
    assert "py-k" in code
    odd = client.get("/methods/seps/code/?level=<b>").content.decode()
    assert '<a href="?level=shapes" aria-current="page">' in odd


def test_the_methods_page_leads_there(client: Client) -> None:
    assert 'href="/methods/seps/code/"' in client.get("/methods/seps/").content.decode()
    assert client.get("/methods/none/code/").status_code == 404


def test_a_changed_file_is_shown_without_shapes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, client: Client
) -> None:
    folder = registry.folder("seps")
    for one in ["reading.json", *(file.path for file in reading.files("seps", "code"))]:
        (tmp_path / one).write_text((folder / one).read_text())
    (tmp_path / "align.py").write_text("x = '<script>'\n" + (folder / "align.py").read_text())
    monkeypatch.setattr(registry, "folder", lambda slug: tmp_path)
    files = {file.path: file for file in reading.files("seps", "shapes")}
    assert files["align.py"].stale
    assert not any(row.tensors for part in files["align.py"].parts for row in part.rows)
    assert not files["slimming.py"].stale
    page = client.get("/methods/seps/code/").content.decode()
    assert "This file has changed since its shapes were recorded" in page
    assert "<script>'" not in page
    (tmp_path / "reading.json").unlink()
    assert (
        "Nothing was recorded of this method" in client.get("/methods/seps/code/").content.decode()
    )
