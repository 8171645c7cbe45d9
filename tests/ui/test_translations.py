"""Every word of a page can be translated, and what is translated keeps its meaning.

A translation may lag behind: a missing one fails nothing, and `manage.py translations` lists it.
"""

from __future__ import annotations

import ast
import gettext
import os
import re
import shutil
from html.parser import HTMLParser
from io import StringIO
from pathlib import Path

import pytest
from django.core.management import CommandError, call_command
from django.template.loader import get_template

from webapp.ui import translations

ROOT = Path(__file__).resolve().parents[2]
CATALOGUE = ROOT / "webapp/locale/zh_Hans/LC_MESSAGES/django.po"
FOR_PROGRAMS = {"ui/robots.txt", "ui/feeds.opml"}
FOR_PROGRAMS |= {"personal/read.html"}  # a class of CSS
TEMPLATES = sorted(
    path
    for path in (ROOT / "templates").rglob("*.*")
    if str(path.relative_to(ROOT / "templates")) not in FOR_PROGRAMS
)
# Names, formats and units, which are the same in both languages.
NAMES = {
    *(
        "Assay",
        "arXiv",
        "PDF",
        "HTML",
        "BibTeX",
        "RSS",
        "Markdown",
        "Atom",
        "JSON",
        "Feed",
        "OPML",
        "RIS",
        "CSL-JSON",
    ),
    *("CSV", "API", "DOI", "Zotero", "v", "UTC"),
}
SHOWN = {"aria-label", "title", "placeholder", "alt"}
UNREAD = {"script", "style", "pre", "code", "kbd"}
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


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the catalogue, which a test may change."""
    copy = tmp_path / CATALOGUE.relative_to(ROOT / "webapp")
    copy.parent.mkdir(parents=True)
    shutil.copyfile(CATALOGUE, copy)
    monkeypatch.setattr(translations, "catalogues", lambda: [copy])
    return copy


def test_a_catalogue_is_compiled_once_and_again_after_a_change(folder: Path) -> None:
    compiled = folder.with_suffix(".mo")
    translations.compile_catalogues()
    with compiled.open("rb") as file:
        read = gettext.GNUTranslations(file)
    assert read.gettext("Search") == "搜索"
    for message, (plural, text) in entries().items():
        if text:
            got = read.ngettext(message, plural, 2) if plural else read.gettext(message)
            assert got == text
    made = compiled.stat().st_mtime_ns
    translations.compile_catalogues()
    assert compiled.stat().st_mtime_ns == made
    folder.write_text(folder.read_text().replace('"搜索"', '"查找"'))
    os.utime(folder, (made / 1e9 + 5, made / 1e9 + 5))
    translations.compile_catalogues()
    with compiled.open("rb") as file:
        assert gettext.GNUTranslations(file).gettext("Search") == "查找"


def test_a_catalogue_that_cannot_be_written_is_reported(
    folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder.with_suffix(".mo").mkdir()
    os.utime(folder.with_suffix(".mo"), (0, 0))
    translations.compile_catalogues()
    assert "so pages are in English" in caplog.text


# What a slip of a hand makes of a catalogue.
BROKEN = {
    "a quote too many": 'msgid "a"b"\nmsgstr ""\n',
    "an unknown word": 'msgid "a"\nmsgstring "b"\n',
    "half a line": 'msgid "a"\nmsgst',
    "a conflict": '<<<<<<< HEAD\nmsgid "a"\nmsgstr "b"\n',
    "bytes of another encoding": 'msgid "a"\nmsgstr "\udcff"\n',
}


@pytest.mark.parametrize("text", BROKEN.values(), ids=BROKEN.keys())
def test_a_catalogue_of_wrong_syntax_is_named(
    folder: Path, caplog: pytest.LogCaptureFixture, text: str
) -> None:
    folder.write_bytes((folder.read_text() + "\n" + text).encode("utf-8", "surrogateescape"))
    translations.compile_catalogues()
    assert f"{folder} cannot be read" in caplog.text
    assert "in English" not in caplog.text
    for option in ([], ["--write"], ["--compile"]):
        with pytest.raises(CommandError, match="cannot be read: "):
            call_command("translations", *option, stdout=StringIO())


# One of each place: a template, a form, a choice of a model, the code, the list of other words.
HELD = {
    "Add a worker": "templates/runs/workers.html",
    "Minimum score": "webapp.digests.profiles.forms.ProfileForm",
    "timed out": "webapp.runs.models.Run.state",
    "an hour": "webapp/core/limits.py",
    "refuted": "templates/ui/words.txt",
}


def test_the_command_lists_what_a_language_lacks_and_prepares_it(folder: Path) -> None:
    out = StringIO()
    assert all(entries()[message][1] for message in HELD)
    for message in HELD:
        folder.write_text(folder.read_text().replace(f'msgid "{message}"', f'msgid "no {message}"'))
    call_command("translations", "--write", stdout=out)
    said = out.getvalue()
    for message, place in HELD.items():
        (line,) = [line for line in said.splitlines() if line.endswith(f": {message}")]
        assert place in line
        assert f'msgid "{message}"\nmsgstr ""' in folder.read_text()
        assert f'msgid "no {message}"' not in folder.read_text()
    (unused,) = re.findall(r"(\d+) unused messages removed", said)
    assert int(unused) >= len(HELD)


def test_a_word_of_the_run_page_is_not_taken_from_mail() -> None:
    """ "Ended" was translated as "unsubscribed", which it once meant."""
    assert entries()["Ended"] == ("", "已结束")
