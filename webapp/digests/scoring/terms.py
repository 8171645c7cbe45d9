"""Keywords as a reader writes them, compiled to patterns.

Three kinds of term:

- words, `sparse attention`, `LLM`, `quant*`: whole tokens in any case, the last one also in the
  plural. A blank matches any blanks or hyphens, a hyphen also nothing: `pre-training` finds
  "pretraining", and `pretraining` finds "pre-training". `*` ends a word early. `|` separates
  synonyms: `mixture of experts | MoE`. Scripts written without blanks match anywhere.
- `/…/`, a regular expression in RE2's syntax, ignoring case; `.` is any character.
- a substring, as in the seed bot: the lower-cased characters, anywhere.

Every term becomes an RE2 pattern, whose matching is linear in the text and bounded in memory, so
that untrusted keywords are safe.
"""

import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property, lru_cache
from itertools import groupby

import re2

from webapp.papers import folding

AUTHOR = "author:"  # the prefix of a keyword for an author
SIGNS = ("+", "-")  # prefixes of keywords that only move papers with another one up or down
MAX_KEYWORD = 100  # characters
MAX_REGEX = 200
MAX_PROGRAM = 1_000  # RE2 instructions of one regular expression
MAX_SPANS = 50  # places of one term in one text

# The characters of words in folded text: ASCII, Latin, Greek, Cyrillic, … with combining marks, but
# no superscripts and no symbols. Ranges instead of Unicode's classes, because RE2 compiles them a
# hundred times faster and Python's `re` has the same syntax.
_WORD = (
    r"0-9a-z\u00b5\u00df-\u00f6\u00f8-\u0dff\u0e80-\u1fff\u2c00-\u2dff\ua000-\uabff\ufb00-\ufdff"
)
# Scripts without blanks between words (Thai, kana, Han, Hangul with its particles): every
# character is a token of its own.
_UNSPACED = r"\u0e00-\u0e7f\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff"
TOKEN = re.compile(rf"[{_WORD}]+|[{_UNSPACED}]")

_WORD_RE2 = re.sub(r"\\u(....)", r"\\x{\1}", _WORD)
_LEFT = rf"(?:^|[^{_WORD_RE2}])"
_RIGHT = rf"(?:$|[^{_WORD_RE2}])"
_RIGHT_OF_LETTER = rf"(?:$|[^{_WORD_RE2}+#])"  # C is neither C++ nor C#
# Between the words of a phrase: blanks, hyphens, dashes, TeX's braces and dollars.
_GAP = r"[\s\x{a0}\x{2000}-\x{2015}\x{202f}\x{3000}\-_/~{}$]"
_PIECE = re.compile(
    rf"(?P<blank>\s+)|(?P<hyphen>[-_\u2010-\u2015]+)|(?P<word>[{_WORD}]+)(?P<star>\*?)"
    r"|(?P<sign>.)",
    re.DOTALL,
)
_SIBILANTS = ("s", "x", "z", "ch", "sh")
# Prefixes that are written with or without a hyphen, before a word of four letters or more.
_PREFIXED = re.compile(
    r"\b(pre|post|multi|non|semi|self|cross|auto|fine)(?=[a-z]{4})"
    r"|\b(e)(?=(?:mail|commerce|learning|book)s?\b)"
    r"|\b([a-z]{2,})(?=\d)"  # gpt4o, resnet50: also GPT-4o, ResNet-50
)


class PatternError(ValueError):
    """An invalid keyword; the message says why."""


class Kind(StrEnum):
    """Syntax of a term, which decides how text is folded to match it."""

    WORDS = "words"
    REGEX = "regex"
    SUBSTRING = "substring"


def normalise(text: str) -> str:
    """Return `text` in NFC and encodable; scores and marks refer to this form."""
    if text.isascii():
        return text
    clean = text.encode("utf-8", "replace").decode()  # JSON may contain lone surrogates
    return unicodedata.normalize("NFC", clean)


def fold(text: str, kind: Kind = Kind.WORDS) -> str:
    """Fold normalised text for terms of this kind, words as in the search."""
    if kind is Kind.REGEX:
        return text
    return text.lower() if kind is Kind.SUBSTRING else folding.fold(text)


@dataclass(frozen=True)
class Term:
    """A compiled keyword. `source` is an RE2 pattern whose group 1 is the match.

    A text with the term has one of the `anchors` among its tokens; some terms, as those with `*`,
    have none. With `exact`, an anchor is a match. `sequence` is part of the text's tokens joined by
    blanks.
    """

    kind: Kind
    source: str
    anchors: frozenset[str] = frozenset()
    sequence: str = ""
    exact: bool = False

    @cached_property
    def pattern(self) -> re2._Regexp:
        """The compiled pattern."""
        return re2.compile(self.source, options(self.kind))

    def spans(self, text: str) -> list[tuple[int, int]]:
        """The ranges of the term in `text` (normalised), in order, not overlapping."""
        if self.kind is Kind.WORDS:
            folded, origin = folding.folded(text)
        else:
            folded = fold(text, self.kind)
            # Some characters have two in lower case: for each of `folded`, its place in `text`.
            origin = [i for i, char in enumerate(text) for _ in fold(char, self.kind)]
        return [(origin[start], origin[end - 1] + 1) for start, end in self._spans(folded)]

    def _spans(self, folded: str) -> Iterator[tuple[int, int]]:
        position = 0
        for _ in range(MAX_SPANS):
            match = self.pattern.search(folded, position)
            if match is None:
                return
            # The group of the synonym that matched; a regular expression may have further groups.
            start, end = match.span(match.lastindex or 1 if self.kind is Kind.WORDS else 1)
            if end > start:
                yield start, end
            # The delimiter right of a word may also be the one left of the next word.
            position = max(end, position + 1) if end > start else end + 1
            if position > len(folded):
                return


def options(kind: Kind) -> re2.Options:
    """Return RE2's options for terms of this kind."""
    chosen = re2.Options()
    chosen.case_sensitive = kind is not Kind.REGEX
    chosen.dot_nl = True
    chosen.log_errors = False
    return chosen


@lru_cache(2_000)  # readers share keywords, which are checked before they are sought
def term(keyword: str, *, substring: bool = False) -> Term:
    """Compile `keyword`. Raises PatternError, with a message for its author."""
    keyword = normalise(keyword)
    if not keyword.strip():
        raise PatternError("is empty")
    if not keyword.isprintable():
        raise PatternError("contains a line break or a control character")
    if substring:
        _check_length(keyword, MAX_KEYWORD)
        return Term(Kind.SUBSTRING, f"({re2.escape(keyword.lower())})")
    keyword = keyword.strip()
    if keyword.startswith(SIGNS):
        keyword = keyword[1:].lstrip()
    if keyword.startswith("/"):
        return _regex(keyword)
    _check_length(keyword, MAX_KEYWORD)
    synonyms = [_words(part.strip()) for part in keyword.split("|")]
    return synonyms[0] if len(synonyms) == 1 else _any_of(synonyms)


def keyword_name(keyword: str) -> str:
    """A short name of a keyword: its first synonym, or the author."""
    keyword = keyword.removeprefix("learned:")
    if keyword.startswith(SIGNS):
        keyword = keyword[1:].lstrip()
    if keyword.casefold().startswith(AUTHOR):
        return f"by {keyword[len(AUTHOR) :].strip()}"
    return keyword if keyword.startswith("/") else keyword.partition("|")[0].strip()


def _check_length(keyword: str, most: int) -> None:
    if len(keyword) > most:
        raise PatternError(f"is longer than {most} characters")


def _regex(keyword: str) -> Term:
    if len(keyword) < 3 or not keyword.endswith("/"):
        raise PatternError("begins as a regular expression but does not end in /")
    source = keyword[1:-1]
    _check_length(source, MAX_REGEX)
    parsed = Term(Kind.REGEX, f"({source})")
    chosen = options(Kind.REGEX)
    chosen.max_mem = 1 << 20
    try:
        # Without the group first: `a)(b` is invalid, though `(a)(b)` is not.
        re2.compile(source, chosen)
        compiled = re2.compile(parsed.source, chosen)
    except re2.error as error:
        reason = error.args[0].decode(errors="replace")
        raise PatternError(f"is not a regular expression RE2 knows: {reason}") from None
    if compiled._regexp.ProgramSize() > MAX_PROGRAM:
        raise PatternError("is too complex: use fewer repetitions or alternatives")
    for probe in ("", "a", "a a"):
        match = compiled.search(probe)
        if match and match.end() == match.start():
            raise PatternError("matches empty text, and therefore every paper")
    return parsed


def _any_of(terms: list[Term]) -> Term:
    """Return one term for several synonyms."""
    anchors = [synonym.anchors for synonym in terms]
    return Term(
        Kind.WORDS,
        "(?:" + "|".join(synonym.source for synonym in terms) + ")",
        frozenset().union(*anchors) if all(anchors) else frozenset(),
    )


def _words(keyword: str) -> Term:
    if not keyword:
        raise PatternError("has nothing on one side of |")
    folded = _PREFIXED.sub(r"\g<0>-", fold(keyword))
    pieces = list(_PIECE.finditer(folded))
    if not any(piece["word"] or TOKEN.match(piece[0]) for piece in pieces):
        raise PatternError("contains no letter and no digit")
    source = []
    for index, piece in enumerate(pieces):
        is_last = index == len(pieces) - 1
        if piece["blank"]:
            source.append(f"{_GAP}+")
        elif piece["hyphen"]:
            source.append(f"{_GAP}*" if index > 0 and not is_last else re2.escape(piece[0]))
        elif piece["star"]:
            if len(piece["word"]) < 2:
                raise PatternError("needs two characters or more before *")
            source.append(re2.escape(piece["word"]) + f"[{_WORD_RE2}]*")
        elif piece["word"]:
            source.append(_plural(piece["word"]) if is_last else re2.escape(piece["word"]))
        elif piece["sign"] == "*":
            raise PatternError("has a * that does not follow a word")
        elif piece["sign"] in "'’":
            source.append("['’]")
        else:
            source.append(re2.escape(piece["sign"]))
    left = _LEFT if pieces[0]["word"] else ""
    right = _RIGHT if pieces[-1]["word"] else ""
    if right and len(pieces[-1]["word"]) == 1 and not pieces[-1]["star"]:
        right = _RIGHT_OF_LETTER
    exact = len(pieces) == 1 and right is not _RIGHT_OF_LETTER
    return Term(
        Kind.WORDS,
        f"{left}({''.join(source)}){right}",
        _anchors(pieces),
        sequence=_sequence(pieces),
        exact=exact,
    )


def _sequence(pieces: list[re.Match[str]]) -> str:
    """The tokens of a phrase of plain words, joined by blanks; "" for other phrases."""
    if not all(piece["blank"] or (piece["word"] and not piece["star"]) for piece in pieces):
        return ""
    words = [piece["word"] for piece in pieces if piece["word"]]
    return " " + " ".join(words).removesuffix("y")  # the plural has "ies"


def _forms(word: str) -> list[str]:
    """Return a word with its English plurals."""
    forms = [word, word + "s"]
    if word.endswith(_SIBILANTS):
        forms.append(word + "es")
    if word.endswith("y") and word[-2:-1] not in ("", *"aeiou"):
        forms.append(word[:-1] + "ies")
    return forms


def _plural(word: str) -> str:
    return "(?:" + "|".join(re2.escape(form) for form in reversed(_forms(word))) + ")"


def _anchors(pieces: list[re.Match[str]]) -> frozenset[str]:
    """Return tokens of which every text with the phrase has one; empty if there are none.

    They are the first word of the longest run without spaces, with its plurals if it is the last.
    Runs with a hyphen or an asterisk do not count, because the token in the text may be longer.
    """
    runs = [list(run) for blank, run in groupby(pieces, lambda p: bool(p["blank"])) if not blank]
    plain = [
        [piece["word"] for piece in run if piece["word"]]
        for run in runs
        if not any(piece["hyphen"] or piece["star"] for piece in run)
    ]
    words = max(plain, key=lambda words: max(map(len, words), default=0), default=[])
    if not words:
        return frozenset()
    is_last = len(words) == 1 and pieces[-1]["word"] == words[0]
    return frozenset(_forms(words[0]) if is_last else words[:1])
