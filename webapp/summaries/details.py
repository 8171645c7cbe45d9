"""Details of a claim that the paper gives: metric, subject, baseline, setting, hardware.

A model may set a true number beside a baseline, a batch size or a GPU that the paper never names.
So each phrase of a detail is looked up: its names and numbers must stand around the claim's quote,
or around another place of the same number; what a paper says once, its setting and hardware, may
stand anywhere, but together. What does not is the model's reading, and shown as that.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from webapp.claims.numbers import Number, fold, fold_with_places, numbers, numbers_in
from webapp.core.tables import table

from .paper_text import NEAR, PaperText
from .schema import ClaimedNumber

FIELDS = ("metric", "subject", "baseline", "setting", "hardware")
ANYWHERE = frozenset({"setting", "hardware"})  # what a paper says once for all its numbers
TOGETHER = 200  # characters within which the words of a phrase stand together
BESIDE = 40  # characters between a number and the word that it counts
MAX_PLACES = 50  # of a phrase that are looked at
_SPLIT = re.compile(
    r"\s*(?:[,;](?!\d)|[，、；()（）]|\b(?:and|with|using|versus|vs\.?|against|at|on|in|for|via)\b)\s*"
)
_TOKEN = re.compile(r"[^\W_][^\W_]*(?:[-.+/][^\W_]+)*")
_RUN = re.compile(r"[a-z]+|\d+(?:\.\d+)?|[^\W\d_a-z]+")
_CHINESE = re.compile(r"[\u3400-\u9fff]")
_WORDS: dict[str, str] = table(__file__, "wording.toml")
_SAYS_NOTHING = frozenset(_WORDS.pop("says nothing").split())
_UNSPECIFIC = frozenset(_WORDS.pop("unspecific").split())
_BEGINNINGS = {name: re.compile("|".join(words.split())) for name, words in _WORDS.items()}
_LABEL = re.compile(r"\b(table|figure|fig\.?|tab\.?|algorithm|appendix)\s*([a-z]?\d+|[a-z]\b)")


def not_given(claimed: ClaimedNumber, text: PaperText) -> dict[str, list[str]]:
    """Return the phrases of each detail that the paper does not contain; {} if it has all."""
    places = _Places(claimed, text)
    missing = {
        name: [phrase for phrase in phrases(value) if not places.give(phrase, name in ANYWHERE)]
        for name in FIELDS
        if (value := getattr(claimed, name))
    }
    return {name: phrases for name, phrases in missing.items() if phrases}


def gives(phrase: str, part: str, text: PaperText, *, unspecific: bool = True) -> bool:
    """True if part of a paper's folded text contains the whole phrase.

    `unspecific` is returned for "the previous best", which names nothing.
    """
    sought = _read(phrase, text)
    if not (sought.names or sought.words or sought.numbers or sought.is_chinese):
        return unspecific
    return not sought.is_chinese and sought.stands(
        part, list(numbers(part)), in_table=True, whole=True
    )


def find_section(claimed: ClaimedNumber, text: PaperText) -> str:
    """Return the section of a claim's quote, in the model's wording if that is right."""
    places = text.places_of(claimed.quote)
    if not places:
        return ""
    named = fold(claimed.section)
    titles = [text.section_at(start) for start, _ in places]
    if any(_same_section(named, fold(title)) for title in titles):
        return claimed.section
    if label := _LABEL.search(named):
        written = re.compile(rf"\b{label[1][:3]}\w*\.? ?{re.escape(label[2])}(?!\w|\.\d)")
        nearby = (text.folded.text[slice(*text.around(*place))] for place in places)
        if any(written.search(near) for near in nearby):
            return claimed.section
    return titles[0][:200]


def _same_section(named: str, title: str) -> bool:
    """True if a model's reference to a section fits a title, by its words or its number."""
    if not named:
        return False
    number = re.search(r"(?<![\w.])[a-z]?\d+(?:\.\d+)*(?![\w])", named)
    numbered = re.match(r"([a-z]?\d+(?:\.\d+)*|[a-z](?= ))\.? ", title)
    if number and numbered and number[0] == numbered[1]:
        return True
    words = re.sub(r"^(?:section|sec\.?|§)?\s*[a-z]?[\d.]*\s*", "", named)
    return len(words) > 2 and (words in title or title in words)


def phrases(detail: str) -> list[str]:
    """Split a detail into phrases that are looked up one by one: "batch size 512", "3 seeds"."""
    return [part for part in _SPLIT.split(detail) if part]


@dataclass(frozen=True)
class _Phrase:
    """Patterns and numbers that a text must have for a phrase to be the paper's."""

    names: tuple[re.Pattern[str], ...]
    words: tuple[re.Pattern[str], ...]
    numbers: tuple[Number, ...]
    is_chinese: bool  # and nothing of it can be looked up

    def stands(self, near: str, there: list[Number], *, in_table: bool, whole: bool) -> bool:
        """True if a text has each name and number, and half of the words, or all.

        A number must have one of the words beside it, except in a table, where the heads provide
        it.
        """
        if not all(name.search(near) for name in self.names):
            return False
        stand = [word for word in self.words if word.search(near)]
        if len(stand) * 2 < len(self.words) or (whole and len(stand) < len(self.words)):
            return False
        return all(self._has(number, near, there, in_table) for number in self.numbers)

    def _has(self, number: Number, near: str, there: list[Number], in_table: bool) -> bool:
        for other in there:
            if not _same(number, other):
                continue
            beside = near[max(0, other.start - BESIDE) : other.end + BESIDE]
            words = (*self.words, *self.names)
            if in_table or not words or any(word.search(beside) for word in words):
                return True
        return False


class _Places:
    """The parts of a paper's text in which the details of one claim may stand."""

    def __init__(self, claimed: ClaimedNumber, text: PaperText) -> None:
        self._text = text
        self._quotes = text.places_of(claimed.quote)
        self._value = [abs(n.value) for n in numbers(f"{claimed.value} {claimed.unit}")][:2]

    def give(self, phrase: str, anywhere: bool) -> bool:
        parsed = _read(phrase, self._text)
        if parsed.is_chinese:
            return False
        if not parsed.names and not parsed.words and not parsed.numbers:
            return True  # "the baseline" says nothing that could be wrong
        if any(self._occurs(parsed, *place, in_table=t) for *place, t in self._near):
            return True
        return anywhere and any(
            self._occurs(parsed, start - TOGETHER, start + TOGETHER, whole=True)
            for start in self._occurrences(parsed)
        )

    def _occurs(
        self, phrase: _Phrase, start: int, end: int, *, in_table: bool = False, whole: bool = False
    ) -> bool:
        start = max(0, start)
        near = self._text.folded.text[start:end]
        there = [n.moved(-start) for n in self._text.numbers_between(start, end)]
        return phrase.stands(near, there, in_table=in_table, whole=whole)

    @cached_property
    def _near(self) -> list[tuple[int, int, bool]]:
        """Ranges around the quote, and around other places of the claim's number."""
        text = self._text
        places = [(*text.around(*place), text.is_in_table(place[0])) for place in self._quotes]
        if not places:
            return []
        for value in self._value[-1:]:
            if len(value.normalize().as_tuple().digits) < 3:
                continue  # 79.66 is the number of few statements, 2 of many
            for number in text.occurrences(value):
                start, end = max(0, number.start - NEAR), number.end + NEAR
                if text.is_in_table(number.start):
                    start, end = text.around(number.start, number.end)
                places.append((start, end, text.is_in_table(number.start)))
        return places

    def _occurrences(self, phrase: _Phrase) -> Iterator[int]:
        """Yield the places of the rarest part of a phrase in the whole text."""
        if phrase.numbers:
            for number in self._text.occurrences(phrase.numbers[0].value):
                yield number.start
        elif patterns := (*phrase.names, *phrase.words):
            longest = max(patterns, key=lambda pattern: len(pattern.pattern))
            for count, match in enumerate(longest.finditer(self._text.folded.text)):
                if count >= MAX_PLACES:
                    return
                yield match.start()


def _read(phrase: str, text: PaperText) -> _Phrase:
    folded = fold_with_places(phrase)
    figures = tuple(n for n in numbers_in(folded) if not n.is_spread)
    taken = {i for n in figures for i in range(n.start, n.end)}
    names, words = [], []
    for token in _TOKEN.finditer(folded.text):
        written = folded.cased[token.start() : token.end()]
        if token.start() in taken or _CHINESE.search(written):
            continue
        if _is_name(written, text, is_first=not token.start()):
            names.append(_spelling_pattern(token[0]))
        elif len(token[0]) > 2 and token[0] not in _SAYS_NOTHING:
            words.append(_inflection_pattern(token[0]))
    is_chinese = not (names or words or figures) and bool(_CHINESE.search(phrase))
    return _Phrase(tuple(names), tuple(words), figures, is_chinese)


def _is_name(written: str, text: PaperText, *, is_first: bool) -> bool:
    """True if a word is a name: letters with digits, or unexpected capitals."""
    if any(c.isdigit() for c in written) or any(c.isupper() for c in written[1:]):
        return True
    if not written[0].isupper() or written.lower() in _SAYS_NOTHING:
        return False
    lower = re.compile(rf"(?<!\w){re.escape(written.lower())}")
    return not (is_first and lower.search(text.folded.cased))


def _same(number: Number, other: Number) -> bool:
    units = {other.unit, *(unit for _, unit in other.same)}
    values = {abs(other.value), *(value for value, _ in other.same)}
    is_counted = number.unit in {"", "x"}  # "4 × A100" are four
    return abs(number.value) in values and (
        is_counted or not number.own_unit or number.unit in units
    )


def _spelling_pattern(name: str) -> re.Pattern[str]:
    """Return a pattern for the spellings of a name: gpt-4o, gpt 4o; a100-80gb, a100 80gb."""
    joined = r"[-\s./+_]?".join(map(re.escape, _RUN.findall(name)))
    return re.compile(rf"(?<![a-z0-9]){joined}s?(?![a-z0-9])")


def _inflection_pattern(word: str) -> re.Pattern[str]:
    """Return a pattern for a word with another ending: accuracies for accuracy."""
    return re.compile(rf"(?<![a-z0-9]){re.escape(_stem(word))}")


# Confirmation, by the text near a number, of the metric and direction that a model gives it.


def metric_is_near(metric: str, context: str) -> bool:
    """True if half of the metric's words are near the number."""
    words = [w for w in re.findall(r"[^\W_]{2,}", fold(metric)) if w not in _UNSPECIFIC]
    near = sum(_stem(word) in context for word in words)
    return bool(words) and 2 * near >= len(words)


def direction_is_near(direction: str, metric: str, context: str) -> bool:
    """True if the direction follows from the metric or from a verb beside it."""
    if direction not in {"lower", "higher"}:
        return True  # "unknown" claims nothing
    metrics = _BEGINNINGS[f"{direction} is better"]
    verbs = _BEGINNINGS["goes down" if direction == "lower" else "goes up"]
    by_metric = metrics.search(fold(metric)) and metric_is_near(metric, context)
    return bool(by_metric or verbs.search(context))


def _stem(word: str) -> str:
    """Return enough of a word to find it in another form: "accuracies" is "accurac"."""
    return word if len(word) < 5 else word[: max(4, len(word) - 3)]
