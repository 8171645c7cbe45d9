"""A sentence as a string of word classes, one character each, that a grammar can be matched with.

"Our method improves accuracy by 3 % on COCO" is NUMb#pN: a noun phrase, a verb of gain, a metric,
"by", a number that the abstract reports, a preposition of place, a noun phrase. `tuples.toml` has
the words of each class; what no class holds is part of a noun phrase.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from webapp.claims.numbers import Folded
from webapp.core.tables import table

from .expressions import Expression
from .vocabulary import one_of

_TABLE = table(__file__, "tuples.toml")
NUMBER, METRIC, NOUN, ACRONYM = "#", "M", "N", "A"
_END = r"(?![\w-])"
_CLASSES = tuple(
    (kind, re.compile(one_of(words) + _END)) for kind, words in _TABLE["classes"].items()
)
# Each sign and its class.
_SIGNS = dict(zip(",;()=≈<>:&/—.-", ",x()====:&/x.x", strict=True))
_SKIPPED = re.compile(r"± ?[\d.]+%?|\\[a-z]+|[\s\\{}$*`'\"~_^+]+")
_WORD = re.compile(r"[^\W_][^\s(),;={}$\\—/]*(?:(?<=\w)/(?=[a-z]{3})[^\s(),;={}$\\—/]*)?|\S")
_METRIC = re.compile(
    rf"(?:(?<=\W)|^)(?:{one_of(_TABLE['metric']['heads'])})"
    r"(?: (?:values?|scores?|metrics?|levels?|measures?)|(?P<points> points?))?$"
)
_EDGE = re.compile(rf"(?:{one_of(_TABLE['metric']['edges'])}|\d[\d.,%]*[kmbt]?) ")
_NO_METRIC = re.compile(rf"(?<!\w){one_of(_TABLE['metric']['not'])}(?!\w)")
_DETERMINERS = {"the", "a", "an", "our", "its", "their"}
_OF_SEVERAL = {"average", "overall", "mean", "total"}
MAX_METRIC_WORDS = 7


@dataclass(frozen=True)
class TextToken:
    """A word class at `start:end` of a folded text; `number` is the index of a reported number."""

    kind: str
    start: int
    end: int
    number: int = -1


def tokens(
    folded: Folded, sentence: tuple[int, int], reported: Sequence[Expression]
) -> list[TextToken]:
    """The tokens of a sentence in which the numbers `reported` stand, in order."""
    found: list[TextToken] = []
    words: list[tuple[int, int]] = []  # of the noun phrase under way
    for token in _words(folded, sentence, reported):
        if token.kind == NOUN:
            if words and folded.text[token.start : token.end] in _DETERMINERS:
                found.append(_phrase(folded, words[0][0], words[-1][1]))  # "on RULER our accuracy"
                words = []
            words.append((token.start, token.end))
            continue
        if token.kind == "c" and not (found and not words and found[-1].kind == NUMBER):
            words.append((token.start, token.end))  # "the more challenging task"
            continue
        if words:
            found.append(_phrase(folded, words[0][0], words[-1][1]))
            words = []
        if token.kind != "q":
            found.append(token)
    if words:
        found.append(_phrase(folded, words[0][0], words[-1][1]))
    return found


def _words(
    folded: Folded, sentence: tuple[int, int], reported: Sequence[Expression]
) -> Iterator[TextToken]:
    at, end = sentence
    text = folded.text[:end]
    numbers = iter([*enumerate(reported), (-1, None)])
    index, number = next(numbers)
    while at < end:
        if number is not None and at >= number.start:
            yield TextToken(NUMBER, number.start, number.end, index)
            at = max(at, number.end)
            index, number = next(numbers)
            continue
        limit = number.start if number is not None else end
        if skipped := _SKIPPED.match(text, at, limit):
            at = skipped.end()
            continue
        if text[at] == "(" and (closing := _aside(text, at, limit)):
            at = closing
            continue
        if text[at] in _SIGNS:
            yield TextToken(_SIGNS[text[at]], at, at + 1)
            at += 1
            continue
        word = _word(text, at, limit)
        yield word
        at = word.end


def _aside(text: str, at: int, limit: int) -> int:
    """Where a parenthesis without a reported number ends, 0 where it holds one."""
    closing = text.find(")", at, limit)
    return closing + 1 if closing >= 0 else 0


def _word(text: str, at: int, limit: int) -> TextToken:
    for kind, pattern in _CLASSES:
        # A class may look ahead to the number ("over 5 %"): the end is that of the sentence.
        found = pattern.match(text, at)
        if found and found.end() <= limit:
            return TextToken(kind, at, found.end())
    found = _WORD.match(text, at, limit)
    if found is None:
        return TextToken("x", at, at + 1)
    end = found.end()
    while end > at + 1 and text[end - 1] in ".,:!?":
        end -= 1
    return TextToken(NOUN, at, end)


def _phrase(folded: Folded, start: int, end: int) -> TextToken:
    """A noun phrase, or the metric or the acronym that it is."""
    first, start = start, without_edges(folded.text, start, end)
    written = folded.text[start:end]
    is_short = written.count(" ") < MAX_METRIC_WORDS
    metric = _METRIC.search(written) if is_short else None
    if metric and not _NO_METRIC.search(written):
        return TextToken(METRIC, start, end - len(metric["points"] or ""))
    *others, last = folded.cased[start:end].split(" ")
    if sum(map(str.isupper, last)) > 1 and set(others) <= _OF_SEVERAL:
        return TextToken(ACRONYM, first, end)
    return TextToken(NOUN, first, end)


def without_edges(text: str, start: int, end: int) -> int:
    """Where a phrase begins without the words that begin no metric's name: "the best F1"."""
    while edge := _EDGE.match(text, start, end):
        start = edge.end()
    return start
