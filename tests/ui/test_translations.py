"""Every word of a page can be translated, and what is translated keeps its meaning.

A translation may lag behind: a missing one fails nothing.

The compiled catalogue is kept beside its source, so that a fresh clone needs no gettext tools.
"""

from __future__ import annotations

import ast
import gettext
import re
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path

import pytest
from django.template.loader import get_template
from django.utils.translation.template import templatize

ROOT = Path(__file__).resolve().parents[2]
CATALOGUE = ROOT / "webapp/locale/zh_Hans/LC_MESSAGES/django.po"
FOR_PROGRAMS = {"ui/robots.txt", "ui/feed.rss", "ui/feed.atom", "ui/feeds.opml"}
FOR_PROGRAMS |= {"personal/read.html"}  # a class of CSS
TEMPLATES = sorted(
    path
    for path in (ROOT / "templates").rglob("*.*")
    if str(path.relative_to(ROOT / "templates")) not in FOR_PROGRAMS
)
# Names, formats and units, which are the same in both languages.
NAMES = {
    *("Assay", "arXiv", "PDF", "BibTeX", "RSS", "Atom", "JSON", "Feed", "OPML", "RIS", "CSL-JSON"),
    *("CSV", "API", "DOI", "Zotero", "v", "UTC"),
}
MARKS = {"_", "gettext", "gettext_lazy", "ngettext", "gettext_noop"}
SHOWN = {"aria-label", "title", "placeholder", "alt"}
UNREAD = {"script", "style", "pre", "code", "kbd"}
_CALL = re.compile(
    r"\b_?n?p?(?:gettext)?\(\s*u?(?P<first>\"(?:[^\"\\]|\\.)*\"|'(?:[^'\\]|\\.)*')"
    r"(?:,\s*u?(?P<second>\"(?:[^\"\\]|\\.)*\"|'(?:[^'\\]|\\.)*'))?"
)
TOLD = re.compile(r"messages\.(success|error|info|warning)")
_TRANSLATED = re.compile(
    r"{% blocktranslate.*?{% endblocktranslate %}|{%.*?%}|{{.*?}}|{#.*?#}", re.S
)


class _Words(HTMLParser):
    """The words of a page that a reader sees or hears."""

    def __init__(self) -> None:
        super().__init__()
        self.inside: list[str] = []
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in UNREAD:
            self.inside.append(tag)
        self.found += [value or "" for name, value in attrs if name in SHOWN]

    def handle_endtag(self, tag: str) -> None:
        if self.inside and self.inside[-1] == tag:
            self.inside.pop()

    def handle_data(self, data: str) -> None:
        if not self.inside:
            self.found.append(data)


def untranslated(template: str) -> list[str]:
    words = _Words()
    words.feed(_TRANSLATED.sub(" ", template))
    text = re.sub(r"\.\w+", "", " ".join(words.found))  # suffixes of files
    return [word for word in re.findall(r"[A-Za-z][\w’-]*", text) if word not in NAMES]


def entries() -> dict[str, tuple[str, str]]:
    """Each message of the catalogue: its plural, or "", and its translation."""
    found = {}
    for block in CATALOGUE.read_text().split("\n\n")[1:]:
        parts = dict.fromkeys(("msgid", "msgid_plural", "msgstr"), "")
        name = ""
        for line in block.splitlines():
            if line.startswith("#"):
                assert "fuzzy" not in line, block
                continue
            key, _, rest = line.partition('"')
            name = key.strip().removesuffix("[0]") or name
            parts[name] += ast.literal_eval('"' + rest)
        assert parts["msgid"] not in found, parts["msgid"]
        found[parts["msgid"]] = (parts["msgid_plural"], parts["msgstr"])
    return found


def used() -> Iterator[str]:
    """Every message that a template or the Python code names."""
    for path in TEMPLATES:
        for call in _CALL.finditer(templatize(path.read_text(), origin=str(path))):
            yield ast.literal_eval(call["first"])
    for path in (ROOT / "webapp").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") in MARKS:
                message = node.args[0]
                if isinstance(message, ast.Constant):  # a variable's words stand elsewhere
                    yield message.value


@pytest.mark.parametrize("path", TEMPLATES, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_no_word_of_a_template_stands_outside_the_catalogue(path: Path) -> None:
    assert untranslated(path.read_text()) == []


def test_the_stylesheet_says_every_word_in_both_languages() -> None:
    css = (ROOT / "static/css/assay.css").read_text()
    english, chinese = re.findall(r"^:root(?::lang\(zh\))? \{\n((?:  --say-.*\n)+)", css, re.M)
    names = re.compile(r"--say-([\w-]+): \"(.+)\";")
    words, ours = dict(names.findall(english)), dict(names.findall(chinese))
    assert words.keys() == ours.keys() == set(re.findall(r"var\(--say-([\w-]+)\)", css))
    assert not re.search("[A-Za-z]", "".join(ours.values()))
    assert not re.search(r"content: \"[A-Za-z]", css)


@pytest.mark.parametrize("path", TEMPLATES, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_a_template_can_be_read(path: Path) -> None:
    """A page that few see, too, loads the tags it uses."""
    get_template(str(path.relative_to(ROOT / "templates")))


def test_the_walk_over_templates_sees_words() -> None:
    """Breaking it on purpose: text, an attribute, and nothing in what is translated."""
    assert untranslated("<p>Some words</p>") == ["Some", "words"]
    assert untranslated('<a title="Some">{{ x }}</a>') == ["Some"]
    whole = "{% blocktranslate trimmed %}Some <b>words</b>{% endblocktranslate %}"
    assert untranslated(f"{whole}<pre>make</pre> <a title=\"{{% translate 'x' %}}\">PDF</a>") == []


def test_a_message_to_a_reader_can_be_translated() -> None:
    """Its words are a message of their own, with what is filled in named."""
    wrong = []
    for path in (ROOT / "webapp").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            told = isinstance(node, ast.Call) and TOLD.fullmatch(ast.unparse(node.func))
            said = node.args[1] if told else None
            if isinstance(said, ast.JoinedStr) and re.search(
                "[a-z]",
                "".join(str(one.value) for one in said.values if isinstance(one, ast.Constant)),
            ):
                wrong.append(ast.unparse(said))
    assert wrong == []


def test_a_translation_keeps_what_is_filled_in_and_its_markup() -> None:
    part = re.compile(r"%\(\w+\)s|{\w*}|%%|<[^>]+>")
    for message, (plural, text) in entries().items():
        assert sorted(part.findall(text)) == sorted(part.findall(plural or message)), message


def test_the_compiled_catalogue_is_this_one() -> None:
    with CATALOGUE.with_suffix(".mo").open("rb") as file:
        compiled = gettext.GNUTranslations(file)
    assert compiled.gettext("Search") == "搜索"
    for message, (plural, text) in entries().items():
        got = compiled.ngettext(message, plural, 2) if plural else compiled.gettext(message)
        assert got == text
    assert len(compiled._catalog) == len(entries()) + 1  # its header


def test_a_word_of_the_run_page_is_not_taken_from_mail() -> None:
    """ "Ended" was translated as "unsubscribed", which it once meant."""
    assert entries()["Ended"] == ("", "结束")
