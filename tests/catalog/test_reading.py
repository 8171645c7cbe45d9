"""The page of a method's code: every line, three levels, equations as MathML, stale files."""

from __future__ import annotations

import re
from pathlib import Path
from urllib.parse import quote

import pytest
from django.test import Client

from methods import registry
from webapp.catalog import reading
from webapp.catalog.templatetags.catalog import highlighted
from webapp.ui.templatetags.ui import formula

pytestmark = pytest.mark.django_db


SLUGS = registry.slugs()


def files(slug: str, level: str) -> list[reading.File]:
    return [reading.file(slug, path, level) for path in reading.paths(registry.get(slug))]


def text(html: str) -> str:
    return re.sub(r"<[^>]+>", "", html)


# The lines are the same at each level: what differs stands between them.
@pytest.mark.parametrize(
    ("slug", "level"),
    [*((slug, "shapes") for slug in SLUGS), ("seps", "code"), ("seps", "equations")],
)
def test_every_line_stands_once(slug: str, level: str) -> None:
    for file in files(slug, level):
        source = (registry.folder(slug) / file.path).read_text()
        rows = [row for part in file.parts for row in part.rows]
        assert [row.number for row in rows] == list(range(1, len(source.splitlines()) + 1))
        shown = [text(row.html).replace("&lt;", "<").replace("&gt;", ">") for row in rows]
        shown = [one.replace("&quot;", '"').replace("&#39;", "'") for one in shown]
        assert [one.replace("&amp;", "&") for one in shown] == source.splitlines()
        assert not file.stale


@pytest.mark.parametrize("slug", [slug for slug in SLUGS if registry.get(slug).example])
def test_every_equation_becomes_mathml(slug: str) -> None:
    found = [
        formula(one.tex)
        for file in files(slug, "equations")
        for part in file.parts
        if part.block
        for one in part.block.equations
    ]
    assert found
    assert [html for html in found if not html.startswith("<math")] == []


def _tags_joined(html: str) -> str:
    """The page without the line breaks and indents between a tag and its text."""
    return re.sub(r">\s+|\s+<", lambda match: match[0].strip(), html)


def test_levels_are_in_the_address(client: Client) -> None:
    shapes = _tags_joined(client.get("/methods/seps/code/?file=core.py").content.decode())
    assert 'class="bound">logits (3, 16, 4) float32' in shapes
    assert '<a href="?level=shapes&amp;file=core.py" aria-current="page">Shapes</a>' in shapes
    equations = client.get("/methods/seps/code/?level=equations&file=core.py").content.decode()
    assert "<math" in equations
    assert 'class="bound"' not in equations
    code = client.get("/methods/seps/code/?level=code&file=core.py").content.decode()
    assert "<math" not in code
    assert 'id="core-L1"' in code
    assert "py-k" in code
    first = reading.paths(registry.get("seps"))[0]
    odd = client.get("/methods/seps/code/?level=<b>&file=../../manage.py").content.decode()
    assert f'<a href="?level=shapes&amp;file={first}" aria-current="page">' in odd


def test_one_file_leads_to_the_next(client: Client) -> None:
    paths = reading.paths(registry.get("seps"))
    for before, path, after in zip(["", *paths], paths, [*paths[1:], ""], strict=False):
        page = client.get("/methods/seps/code/", {"file": path}).content.decode()
        found = re.findall(r'rel="(prev|next)" href="\?level=shapes&amp;file=([^"]+)"', page)
        expected = [("prev", quote(before)), ("next", quote(after))]
        assert found == [(way, one) for way, one in expected if one]


def test_the_methods_page_leads_there(client: Client) -> None:
    assert 'href="/methods/seps/code/"' in client.get("/methods/seps/").content.decode()
    assert client.get("/methods/none/code/").status_code == 404


def test_a_changed_file_is_shown_without_shapes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, client: Client
) -> None:
    folder = registry.folder("seps")
    for one in ["trace.json", *reading.paths(registry.get("seps"))]:
        (tmp_path / one).write_text((folder / one).read_text())
    (tmp_path / "core.py").write_text("x = '<script>'\n" + (folder / "core.py").read_text())
    monkeypatch.setattr(registry, "folder", lambda slug: tmp_path)
    changed = reading.file("seps", "core.py", "shapes")
    assert changed.stale
    assert not any(row.tensors for part in changed.parts for row in part.rows)
    assert not reading.file("seps", "model.py", "shapes").stale
    page = client.get("/methods/seps/code/?file=core.py").content.decode()
    assert "This file has changed since its shapes were recorded" in page
    assert "<script>'" not in page
    nothing = "No example of this method has been recorded"
    whole = (tmp_path / "trace.json").read_text()
    (tmp_path / "trace.json").write_text(whole.replace('"line":', '"line":9', 1))  # damaged
    assert nothing in client.get("/methods/seps/code/").content.decode()
    assert client.get("/methods/seps/").status_code == 200
    (tmp_path / "trace.json").unlink()
    assert nothing in client.get("/methods/seps/code/").content.decode()


def test_a_line_of_source_is_words_in_coloured_spans_and_nothing_else() -> None:
    line = '    <span class="py-k">if</span> a &lt; b: <span class="py-s">&quot;x&quot;</span>'
    assert highlighted(line) == line.replace("&quot;", '"')
    hostile = '<span class="py-k" onclick="x()">if</span><script>x()</script><img src="//e">'
    assert highlighted(hostile) == '<span class="py-k">if</span>'
