"""Files that readers choose as text: exports and configurations, from any editor and system."""

import re

from django.utils.translation import gettext

# Bytes of GB18030 for one character, and those of GB 2312's punctuation and frequent characters.
_PAIR = re.compile(rb"[\x81-\xfe][\x40-\x7e\x80-\xfe]")
_FREQUENT = re.compile(rb"[\xa1-\xa3\xb0-\xd7][\xa1-\xfe]")
# Two Chinese characters in a row, or quotation marks and dashes.
_CHINESE = re.compile("[\u4e00-\u9fff]{2}|[‘’“”—…]")
_KANA = re.compile("[\u3040-\u30ff]")  # of EUC-JP, whose codes GB18030 shares
_GARBLED = re.compile("[¡-ÿ]{4}")  # no Western word has as many accented letters in a row


class EncodingError(ValueError):
    """A file is in none of the encodings that are read."""

    def __str__(self) -> str:
        return gettext("The file’s encoding is unknown: save it as UTF-8.")


def decoded(body: bytes) -> str:
    """A file as text: in UTF-16, UTF-8, GB18030 or Windows-1252. Raises EncodingError.

    Chinese Windows exports GB18030, of which GBK and GB 2312 are parts.
    """
    if body.startswith((b"\xff\xfe", b"\xfe\xff")):
        return body.decode("utf-16", "replace")
    for codec, zeros in (("utf-16-le", body[1:200:2]), ("utf-16-be", body[:200:2])):
        if 2 * zeros.count(0) > len(zeros):  # without a mark
            return body.decode(codec, "replace")
    text = body.decode("utf-8-sig", "replace")
    beyond_ascii = len(text) - len(text.encode("ascii", "ignore"))
    if 10 * text.count("\ufffd") <= beyond_ascii:  # a character may be cut through
        return text
    try:
        text = body.decode("gb18030")
    except UnicodeDecodeError:
        pass
    else:
        if _is_chinese(body, text):
            return text
    try:
        text = body.decode("cp1252")
    except UnicodeDecodeError:
        raise EncodingError from None
    if _GARBLED.search(text):
        raise EncodingError
    return text


def _is_chinese(body: bytes, text: str) -> bool:
    """True if a text is Chinese, rather than accented letters that were read in pairs."""
    pairs = _PAIR.findall(body)
    frequent = sum(_FREQUENT.fullmatch(pair) is not None for pair in pairs)
    is_frequent = 2 * frequent >= len(pairs)
    return is_frequent and bool(_CHINESE.search(text)) and not _KANA.search(text)
