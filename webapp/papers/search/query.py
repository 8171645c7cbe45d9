"""A reader's query as terms: words, phrases, prefixes, fields, categories, dates."""

import re
from dataclasses import dataclass, field, replace
from datetime import date, timedelta

from django.utils.translation import gettext, gettext_noop

from webapp.papers import folding
from webapp.papers.identifiers import category_in
from webapp.papers.names import parse_name, spellings, without_apostrophes
from webapp.papers.search.words import IDLE, other_spelling

MAXTERMS = 16
OR = "OR"
DATES = frozenset({"after", "before", "year", "date"})
CANNOT_JOIN = gettext_noop(
    "OR joins two words of the same field, or two of method:, has:, is:, list: and note:. "
    "Neither can be excluded."
)
NO_FIELD = gettext_noop(
    "There is no field “%(field)s:”. To search for words with a colon, put them in quotes."
)
MAX_QUERY = 400  # characters read
FIELDS = {
    "ti": "title",
    "title": "title",
    "au": "authors",
    "author": "authors",
    "abs": "abstract",
    "abstract": "abstract",
    "cat": "categories",
    "category": "categories",
}
TERM = re.compile(r'(?P<no>-?)(?:(?P<field>[A-Za-z]{2,16}):)?(?P<text>"[^"]*"|[^\s"]+)')
_BUT_NOT = re.compile(r',?\s+(?:but not|except(?: for)?|excluding)\s+([^"]+)$', re.IGNORECASE)
_ONE_OF = re.compile(r",|\b(?:and|or|nor)\b", re.IGNORECASE)
_WORD = re.compile(r"[^\W_]+")
_BLANKS = {code: " " for code in range(128) if not chr(code).isalnum()}
UNSPACED = re.compile(f"[{folding.UNSPACED}]")
_DATE = re.compile(r"((?:19|2\d)\d\d)(?:-(\d{1,2})(?:-(\d{1,2}))?)?")
# Written apart, with a hyphen or as one word; the index only has each paper's own spelling.
PREFIXES = frozenset(
    {"anti", "auto", "bench", "bi", "co", "cross", "data", "down", "few", "fine"}
    | {"hyper", "inter", "intra", "key", "macro", "meta", "micro", "multi", "non", "over"}
    | {"post", "pre", "pseudo", "re", "self", "semi", "sub", "super", "time", "tri", "un"}
    | {"under", "up", "web", "zero"}
)
_ELECTRONIC = frozenset({"mail", "commerce", "learning", "book"})  # after an e, joined or not
_NUMBERED = re.compile(r"([a-z]{2,})(\d.*)")  # gpt4o, resnet50: also GPT-4o, ResNet-50
_ELIDED = re.compile(r"([dlo])(\w{3,})")  # oneil: the index has O'Neil as two words
# As in the index, where words are letters and digits only (migration 0001).
SPELLED = {"c++": "cplusplus", "c#": "csharp"}


@dataclass(frozen=True)
class QueryTerm:
    """Consecutive words to find or to exclude, in one column or anywhere."""

    words: tuple[str, ...]
    column: str = ""
    prefix: bool = False  # the last word is only the beginning of one
    exclude: bool = False
    quoted: bool = field(default=False, compare=False)  # its words belong together
    others: tuple["QueryTerm", ...] = ()  # any of these does as well: `pruning OR merging`
    name: str = field(default="", compare=False)  # of an author, where names are compared

    def ways(self) -> list[tuple[tuple[str, ...], bool]]:
        """Return the words of every alternative and spelling, and whether the last is a prefix."""
        return [(words, term.prefix) for term in (self, *self.others) for words in term.spellings()]

    @property
    def is_idle(self) -> bool:
        """True if the term says nothing about a paper: "how", "please", outside quotes."""
        return not (self.quoted or self.column or self.others) and IDLE.issuperset(self.words)

    def spellings(self) -> list[tuple[str, ...]]:
        """The words as written, in the other spelling of English, and with a leading prefix
        separated or joined."""
        first, *rest = self.words
        if self.column == "categories" or self.prefix:
            return [self.words]
        ways = [self.words]
        if self.column == "authors":
            if rest:
                ways.append(("".join(self.words),))  # Lind-Berg, Lindberg
            elif elided := _ELIDED.fullmatch(first):
                ways.append((elided[1], elided[2]))
            return ways
        ways.append(tuple(map(other_spelling, self.words)))
        if not rest:
            ways += [
                (prefix, first.removeprefix(prefix))
                for prefix in sorted(PREFIXES)
                if first.startswith(prefix) and len(first) >= len(prefix) + 4
            ]
            if first[:1] == "e" and first[1:] in _ELECTRONIC:
                ways.append(("e", first[1:]))
            if numbered := _NUMBERED.fullmatch(first):
                ways.append((numbered[1], numbered[2]))
        elif len(rest) == 1 and _can_join(first, rest[0]):
            ways.append((first + rest[0],))
        return list(dict.fromkeys(ways))


def _can_join(first: str, second: str) -> bool:
    """True if two words are also written as one."""
    is_electronic = first == "e" and second in _ELECTRONIC
    return first in PREFIXES or is_electronic or bool(_NUMBERED.fullmatch(first + second))


@dataclass(frozen=True)
class NamedField:
    """A field that another app defines: `method:sparse_attention`, `-is:unread`."""

    field: str
    value: str
    exclude: bool = False
    others: tuple["NamedField", ...] = ()


class QueryError(ValueError):
    """A query asks for what a search does not have; the message says in one sentence what."""


@dataclass(frozen=True)
class Query:
    """A parsed query: terms, first and last day announced, and fields that other apps define.

    Resolved, the named fields are the keys of the only papers that count, if not None, and of
    papers that do not.
    """

    terms: tuple[QueryTerm, ...] = ()
    since: date | None = None
    until: date | None = None
    named: tuple[NamedField, ...] = ()
    only: tuple[int, ...] | None = None
    without: tuple[int, ...] = ()


def parse(text: str, names: tuple[str, ...] = ()) -> Query:
    """Parse the query in `text`; parts without a letter or digit are ignored.

    `names` are the fields that other apps define. `OR` joins the terms beside it. Raises QueryError
    for an undefined field, and for an OR between terms that cannot be joined.
    """
    parts: list[QueryTerm | NamedField] = []
    since = until = None
    joins = False  # the next term is an alternative of the last
    for match in TERM.finditer(text[:MAX_QUERY]):
        if match[0] == OR:
            joins = bool(parts)
            continue
        name, value = (match["field"] or "").lower(), match["text"]
        span = _days(value) if name in DATES else None
        part: QueryTerm | NamedField | None
        if span:
            first, last = span
            if name == "before":
                last = first - timedelta(days=1)
            else:
                since = max(since or first, first)
            if name != "after":
                until = min(until or last, last)
            part = None
        elif name in names:
            part = NamedField(name, value.strip('"').lower(), bool(match["no"]))
        else:
            is_field = name in FIELDS or name in DATES
            if name and not is_field and not _is_text(match["field"], value):
                raise QueryError(gettext(NO_FIELD) % {"field": name})
            part = _term(value if name in FIELDS else match[0], FIELDS.get(name, ""))
            part = replace(part, exclude=bool(match["no"])) if part else None
        if part and joins:
            parts.append(_joined(parts.pop(), part))
        elif part:
            parts.append(part)
        elif joins:
            raise QueryError(gettext(CANNOT_JOIN))
        joins = False
    terms = [part for part in parts if isinstance(part, QueryTerm)]
    named = [part for part in parts if isinstance(part, NamedField)]
    return Query(_first(terms), since, until, tuple(named))


def _first(terms: list[QueryTerm]) -> tuple[QueryTerm, ...]:
    """At most MAXTERMS of them; of a long question those that tell something."""
    if len(terms) > MAXTERMS:
        terms = [term for term in terms if not term.is_idle] or terms
    return tuple(terms[:MAXTERMS])


def excluding(text: str) -> str:
    """A question that ends in "but not …" with that excluded: `… -"optical flow"`; "" for others.

    A title may have these words, so this is for the reader to choose.
    """
    match = _BUT_NOT.search(text)
    if not match:
        return ""
    parts = [words_of(part) for part in _ONE_OF.split(match[1])]
    phrases = [" ".join(word for word in words if word not in IDLE) for words in parts]
    left = [f'-"{words}"' if " " in words else f"-{words}" for words in phrases if words]
    return " ".join([text[: match.start()], *left]) if left else ""


def _joined(
    first: QueryTerm | NamedField, second: QueryTerm | NamedField
) -> QueryTerm | NamedField:
    """Join two terms as alternatives. Raises QueryError."""
    is_plain = not (first.exclude or second.exclude) and len(first.others) < MAXTERMS
    if is_plain and isinstance(first, NamedField) and isinstance(second, NamedField):
        return replace(first, others=(*first.others, second))
    if is_plain and isinstance(first, QueryTerm) and isinstance(second, QueryTerm):  # noqa: SIM102
        if first.column == second.column:
            return replace(first, others=(*first.others, second))
    raise QueryError(gettext(CANNOT_JOIN))


def _is_text(name: str, value: str) -> bool:
    """True if a colon is part of the search text: an address, a name such as `std::vector`, or a
    title pasted without its blank (`WhAI:Probing`): no field has capital letters.
    """
    is_address = value.startswith(("/", ":")) or name.lower() in {"arxiv", "doi", "https", "http"}
    return is_address or not name.islower()


def fold(text: str) -> str:
    """Fold a text as the index does: C++ and C# become words, Han characters stand apart."""
    text = folding.fold(text)
    for symbol, word in SPELLED.items():
        text = text.replace(symbol, word)
    return text if text.isascii() else UNSPACED.sub(r" \g<0> ", text)


def words_of(text: str) -> list[str]:
    """The folded words of `text`, in order; a Han character is one."""
    folded = fold(text)
    if folded.isascii():  # the same words in a third of the time
        return folded.translate(_BLANKS).split()
    return _WORD.findall(folded)


def index_words(text: str | None) -> str:
    """A text as SQLite's index holds it."""
    return " ".join(words_of(text or ""))


def category_word(category: str) -> str:
    """The word for a category in the index."""
    word = category.lower().replace(".", "0").replace("-", "1")
    return "".join(_WORD.findall(word)) or "none"


def _term(text: str, column: str) -> QueryTerm | None:
    text = text.removeprefix("-")
    if column == "categories" or (not column and category_in(text.strip(",;"))):
        return QueryTerm((category_word(text.strip('",;')),), "categories")
    name = ""
    if column == "authors":
        name = parse_name(text.strip('"')).in_order
        text = without_apostrophes(text)
    words = tuple(words_of(text))
    if not words:
        return None
    # A prefix of one letter would match too many words to be fast.
    is_prefix = text.endswith("*") and len(words[-1]) > 1
    is_compared = not is_prefix and (" " in name or len(spellings(name)) > 1)
    return QueryTerm(
        words, column, is_prefix, quoted=text.startswith('"'), name=name if is_compared else ""
    )


def _days(text: str) -> tuple[date, date] | None:
    """Return the first and last day of `2026`, `2026-05` or `2026-05-04`; None for other text."""
    match = _DATE.fullmatch(text)
    if match is None:
        return None
    year, month, day = (int(part) if part else 0 for part in match.groups())
    try:
        first = date(year, month or 1, day or 1)
        if day:
            return first, first
        following = date(year + (month in {0, 12}), month % 12 + 1 if month else 1, 1)
    except ValueError:
        return None
    return first, following - timedelta(days=1)
