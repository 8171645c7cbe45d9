"""Files as their authors' systems wrote them: their text, or a sentence."""

from __future__ import annotations

import pytest

from webapp.core.encodings import EncodingError, decoded

TEXTS = {
    "Chinese": "@article{a,\r\n title = {稀疏注意力综述},\r\n author = {王伟 and 陈喆}\r\n}",
    "a Chinese name": "@misc{a, title={Sparse Attention}, author={张三 and Ada Cole}}",
    "Chinese quotation marks": "TY  - JOUR\r\nTI  - “Sparse” is all — O’Neil\r\nER  - \r\n",
    "German": "Größe, Müller, Straße, “Über” – schön",
    "French": "Élan à l’été: où, çà, naïve, Noël",
    "Portuguese in capitals": "INFORMAÇÃO E AÇÃO, SÃO, É",
    "Spanish": "¿Qué? ¡Él! ¡África! año",
    "English": "No letter beyond ASCII",
}
WESTERN = {"German", "French", "Portuguese in capitals", "Spanish", "English"}


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
@pytest.mark.parametrize("codec", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be"])
def test_unicode_is_read_in_each_encoding(text: str, codec: str) -> None:
    text += "\n" + "ASCII, as in every export. " * 4  # by which UTF-16 shows without its mark
    assert decoded(text.encode(codec)) == text


@pytest.mark.parametrize("name", TEXTS)
def test_an_export_of_windows_is_read(name: str) -> None:
    codec = "cp1252" if name in WESTERN else "gbk"
    assert decoded(TEXTS[name].encode(codec)) == TEXTS[name]


def test_a_character_cut_through_spoils_no_other() -> None:
    assert decoded("稀疏注意力的综述与展望".encode()[:-1]) == "稀疏注意力的综述与展\ufffd"


@pytest.mark.parametrize(
    ("text", "codec"),
    [
        ("Привет мир статья", "cp1251"),
        ("日本語の論文です。", "shift-jis"),
        ("日本語の論文です。", "euc-jp"),
        ("繁體中文論文", "big5"),
        ("\x81\x8d\x8f", "latin-1"),
    ],
)
def test_another_encoding_is_refused_in_a_sentence(text: str, codec: str) -> None:
    with pytest.raises(EncodingError, match="encoding is unknown: save it as UTF-8"):
        decoded(text.encode(codec))


@pytest.mark.parametrize("body", [b"", b"\xff\xfe", b"\xff\xfe{", b"\xef\xbb\xbf", b"\x00", b"a"])
def test_nearly_nothing_is_text(body: bytes) -> None:
    assert len(decoded(body)) <= 1
