"""Texts fold alike on SQLite, which asks Python, and on PostgreSQL, by a function of its own."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import psycopg
import pytest

from tests.servers.stores import new_database
from webapp.papers.search.query import index_words

# Written by hand, as a reader without such a keyboard types them.
FOLDED = {
    "Łukasz Żółć": "lukasz zolc",
    "Ørsted Øre": "orsted ore",
    "Đorđe Đoković": "dorde dokovic",
    "Guðmundur Ðór": "gudmundur dor",
    "Ħal Għaxaq": "hal ghaxaq",
    "Işık IŞIK ısı İpek": "isik isik isi ipek",
    "Weiß STRASSE ẞ": "weiss strasse ss",
    "Ærø Æsir Cœur Œuvre": "aero aesir coeur oeuvre",
    "Þórr þing": "thorr thing",
    "Ŧŋĸ Ƶ ɨ ə": "tnk z i e",
    "ﬁne ﬂow eﬃcient oﬀ ﬆop ĳs": "fine flow efficient off stop ijs",
    "naïve Bézier Åse Dvořák Nguyễn": "naive bezier ase dvorak nguyen",
    "ｆｕｌｌ ＷＩＤＴＨ": "full width",
    "x² H₂O ½": "x2 h2o 1 2",
    "β-VAE Σ λ-calculus μTransfer ς": "beta vae sigma lambda calculus mutransfer sigma",
    "$F_1$ CO$_2$ $\\beta$-VAE $\\mathrm{L}_2$": "f1 co2 beta vae l2",
    "$\\varepsilon$-greedy $k$-means $\\mathbf{x}^{2}$": "epsilon greedy k means x2",
    "$\\ell_1$ and $\\ell$": "l1 and l",
    "C++ and C#": "cplusplus and csharp",
    "𝐋𝐨𝐑𝐀 𝒪(n) ℓ": "lora o n l",
    "大语言模型 LLM推理": "大 语 言 模 型 llm 推 理",
    "ガンマ が": "カ ン マ か",
    "한국어 처리": "한국어 처리",
    "йод ёлка": "иод елка",
    "snake_case a.b/c@d <mask>": "snake case a b c d mask",
}
# The letters of names, words and formulas; marks of other scripts stand beside their letters.
BLOCKS = (
    *((0x00A0, 0x024F), (0x0250, 0x02AF), (0x0300, 0x0482), (0x048A, 0x052F), (0x1E00, 0x1FFF)),
    *((0x2070, 0x209F), (0x2100, 0x218F), (0x2460, 0x24EA), (0x3040, 0x30FF), (0x4E00, 0x4E40)),
    *((0xAC00, 0xAC40), (0xF900, 0xF940), (0xFB00, 0xFB06), (0xFF00, 0xFFEF), (0x1D400, 0x1D7FF)),
)


def letters() -> Iterator[str]:
    """Each letter, mark and number of the blocks above, between two letters of a word."""
    for first, last in BLOCKS:
        for code in range(first, last + 1):
            if unicodedata.category(chr(code))[0] in "LMN":
                yield f"a{chr(code)}b"


@pytest.fixture(scope="module")
def postgresql(postgresql_url: str) -> Iterator[psycopg.Cursor[Any]]:
    """A database with the function that its index reads texts by."""
    tables = import_module("webapp.papers.migrations.0001_squashed_0012_fenced_lease")
    with psycopg.connect(new_database(postgresql_url, "folding"), autocommit=True) as opened:
        opened.execute(tables._function())
        yield opened.cursor()


def index_words_there(database: psycopg.Cursor[Any], text: str) -> str:
    """The words of a text as PostgreSQL's index holds them, before it takes their endings."""
    import webapp.papers.migrations

    of = (Path(webapp.papers.migrations.__path__[0]) / "search_words.postgresql.sql").read_text()
    database.execute(
        "SELECT word FROM unnest(to_tsvector('simple', " + of.replace("{}", "%s") + "))"
        " AS told(word, positions, weights), unnest(positions) AS at ORDER BY at",
        [text],
    )
    return " ".join(word for (word,) in database.fetchall())


@pytest.mark.parametrize("text", FOLDED)
def test_special_letters_ligatures_formulas_and_han_fold_as_readers_type(text: str) -> None:
    assert index_words(text) == FOLDED[text]


def test_postgresql_folds_the_same(postgresql: psycopg.Cursor[Any]) -> None:
    there = {text: index_words_there(postgresql, text) for text in FOLDED}
    assert there == FOLDED


def test_every_letter_folds_alike_on_both(postgresql: psycopg.Cursor[Any]) -> None:
    texts = list(letters())
    assert len(texts) > 2_000
    differ = {
        f"U+{ord(text[1]):04X}": (here, there)
        for text in texts
        if (here := index_words(text)) != (there := index_words_there(postgresql, text))
    }
    assert differ == {}
