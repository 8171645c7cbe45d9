"""Quotes of an abstract's results: the shortest clause that holds a number, word for word.

A sentence is cut only at the start of another clause, so names, lists and comparisons stay whole. A
clause that begins with its verb ("reduces memory by 4x") is separated from its subject only if that
is the paper's own work. If an opening phrase, a negation or a word such as "respectively" applies
to more than one clause, the sentence is quoted whole.
"""

import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, cached_property, lru_cache, partial

from webapp.claims.numbers import Folded, fold, fold_with_places
from webapp.ui.markup import plain, render

from .expressions import expressions
from .reported import MAX_ABSTRACT, AbstractNumber, number_of, outcomes

TWO_LINES = 180  # characters, in a row of a digest
_STEMS = (
    "achiev|reach|attain|improv|reduc|outperform|surpass|exceed|obtain|accelerat|preserv|maintain"
    "|retain|recover|requir|deliver|enhanc|halv|consum|sustain|keep"
)
_PARTICIPLE = (
    rf"(?:{_STEMS}|lower|increas|decreas|boost|yield|cutt|sav|rais|beat|match|runn|shrink|us)ing\b"
    r"|leading to\b|resulting in\b"
)
# With "and" before it, "increase" or "cut" may be a noun, "lower" or "reduced" an adjective.
_FINITE = (
    rf"(?:(?:{_STEMS})(?:e?s)?|(?:achiev|improv|reduc|accelerat|preserv|requir|enhanc|halv|consum)e"
    r"|(?:increas|decreas|rais|match)es|(?:boost|yield|cut|lower|beat|run|shrink|need|take)s|saves"
    r"|(?:achiev|reach|attain|outperform|surpass)ed)\b"
)
# Possible ends of a clause; the group is the beginning of the next one.
_BORDER = re.compile(
    rf"(?:,(?: and)?(?: while| thereby| thus)?| and| while| thereby) (?P<participle>{_PARTICIPLE})"
    rf"|,? and (?:also |further )?(?P<verb>{_FINITE})"
    rf"|(?:;(?: and)?|, and|,? while) (?P<subject>(?:[^\s,;()]+ ){{1,6}}(?:{_FINITE}|is|are))"
)
_RUN_UP = re.compile(
    r"(?:(?:moreover|furthermore|additionally|in addition|notably|remarkably|importantly|overall"
    r"|finally|consequently|as a result|specifically|in particular|crucially|empirically), )?"
    r"(?:(?:(?:our|the|extensive|comprehensive|experimental|empirical|these) ){0,3}"
    r"(?:experiments?|results?|evaluations?|findings) (?:show|demonstrate|reveal|confirm)s? that )?"
)
_OWN = re.compile(r"(?:we|it|this|ours|our|the (?:proposed|resulting) \w+)\b")
_OTHER = re.compile(r"(?:they|these|those|this|that|each|both|all|the (?:latter|former)|which)\b")
_HOLDS_FOR_MORE = re.compile(
    r"\b(?:respectively|whereas|not|without|fails?|unless|if|would|could|might)\b"
)
_NAME = r"(?P<name>[A-Z][\w-]*[A-Za-z0-9])"
_PROPOSED = re.compile(
    r"\b(?:propos|introduc|present|develop)\w* "
    rf"(?:[^.;]{{0,120}}?(?:\(|, |called |dubbed |named |termed ))?{_NAME}"
)

_MARK = '<mark data-k="0">'
# Formulas that are no more than a number.
_SIGNS = {r"\times": "×", r"\%": "%", r"\pm": "±", r"\sim": "~", r"\approx": "≈", r"\le": "≤"}
_SIGNS |= {r"\leq": "≤", r"\geq": "≥", r"\ge": "≥", r"\,": " ", r"\to": "→", r"\rightarrow": "→"}
_SIGN = re.compile(r" ?(?:\\[a-z]+|\\[,%])")
_FORMULA = re.compile(
    rf"\$((?:[\d\s.,+\-<>=~/()]|(?:{'|'.join(map(re.escape, _SIGNS))})(?![a-z]))+)\$"
)

_LETTER = re.compile(r"[^\W_]|[.%]")  # in a quote; signs and spaces may be written otherwise
_CLOSING = re.compile(r"[)\]}\"'。]*")


@dataclass(frozen=True)
class Quote:
    """A clause of an abstract, and the numbers in it that the abstract reports."""

    clause: str  # as the abstract has it, with TeX
    start: int  # in the abstract
    numbers: tuple[AbstractNumber, ...]
    instead_of: str = ""  # the text of the quote that a reader replaced by it

    @property
    def subject(self) -> str:
        """The subject of a correction of it."""
        return self.instead_of or self.text

    def overlaps(self, other: "Quote") -> bool:
        """True if two quotes share words of the abstract."""
        ends = self.start + len(self.clause), other.start + len(other.clause)
        return self.start < ends[1] and other.start < ends[0]

    @property
    def _places(self) -> list[tuple[int, int]]:
        """The places of the numbers in the clause."""
        return [(n.start - self.start, n.end - self.start) for n in self.numbers]

    def repeats(self, sentence: str) -> bool:
        """True if a sentence, which may be cut, says the clause or its beginning and numbers."""
        said = sentence.casefold().removesuffix(" …").rstrip(".")
        clause = self.clause.casefold().rstrip(".")
        numbers = [clause[start:end] for start, end in self._places]
        is_beginning = bool(said) and said in clause and all(number in said for number in numbers)
        return clause in said or is_beginning

    @cached_property
    def text(self) -> str:
        """The clause as plain text."""
        return "".join(piece for piece, _ in self.parts)

    @cached_property
    def html(self) -> str:
        """The clause as sanitised HTML, its numbers bold."""
        return with_bold(self.clause, self._places)

    @cached_property
    def parts(self) -> list[tuple[str, bool]]:
        """The clause as plain text in pieces; True for a number.

        One piece where a number stands in a group of TeX with other words.
        """
        pieces, written = [], 0
        for start, end in self._places:
            begins, ends = _with_formula(self.clause, start, end)
            if begins >= written:  # else it stands in the formula of the one before
                pieces += [(self.clause[written:begins], False), (self.clause[begins:ends], True)]
                written = ends
        pieces.append((self.clause[written:], False))
        if any(piece.count("{") != piece.count("}") for piece, _ in pieces):
            pieces = [(self.clause, False)]
        return [(_plain(piece), is_number) for piece, is_number in pieces if piece]


def with_bold(text: str, places: Iterable[tuple[int, int]]) -> str:
    """Return a text of an abstract as sanitised HTML, what stands at some places bold."""
    html = render(text, [(start, end, 0) for start, end in places])
    return html.replace(_MARK, "<b>").replace("</mark>", "</b>")


@lru_cache(maxsize=4096)
def quotes(abstract: str) -> tuple[Quote, ...]:
    """Return the results in an abstract, in reading order; each number is in one quote."""
    folded = fold_with_places(abstract[:MAX_ABSTRACT])
    names = {match["name"] for match in _PROPOSED.finditer(folded.cased)}
    clauses: list[tuple[int, int, list[AbstractNumber]]] = []
    parted = cache(partial(_parted, folded, names))  # a sentence once for all of its numbers
    for expression, place in outcomes(folded):
        number = expression.start, expression.end
        start, end = _clause(folded, names, parted(*place.sentence), number)
        numbers = [number_of(folded, expression)]
        if clauses and start < clauses[-1][1]:  # one that needs the clause before it
            first, last, earlier = clauses.pop()
            start, end, numbers = min(first, start), max(last, end), earlier + numbers
        clauses.append((start, end, numbers))
    return tuple(_quote(abstract, folded, *clause) for clause in clauses)


def shortest(reported: Sequence[Quote]) -> Quote | None:
    """Return the quote for a row: the first of at most two lines, else the shortest."""
    short = (quote for quote in reported if len(quote.text) <= TWO_LINES)
    return next(short, None) or min(reported, key=lambda quote: len(quote.text), default=None)


def quote_in(abstract: str, clause: str) -> Quote | None:
    """Return the quote with these words and its numbers, or None if the abstract lacks either."""
    folded = fold_with_places(abstract[:MAX_ABSTRACT])
    characters = list(_LETTER.finditer(folded.text))
    sought = "".join(map(_base, _LETTER.findall(fold(clause))))
    first = "".join(_base(character[0]) for character in characters).find(sought)
    if not sought or first < 0:
        return None
    start, end = characters[first].start(), characters[first + len(sought) - 1].end()
    if not _is_word_border(folded.text, start) or not _is_word_border(folded.text, end):
        return None
    end = _CLOSING.match(folded.text, end).end()  # type: ignore[union-attr]
    reported = [expression for expression, _ in outcomes(folded)]
    inside = [
        [number_of(folded, e) for e in candidates if start <= e.start and e.end <= end]
        for candidates in (reported, expressions(folded))
    ]
    numbers = inside[0] or inside[1]
    return _quote(abstract, folded, start, end, numbers) if numbers else None


def _base(letter: str) -> str:
    """Return a letter without its accent, which TeX writes as a macro."""
    return unicodedata.normalize("NFKD", letter)[0]


def _is_word_border(text: str, place: int) -> bool:
    return not (text[place - 1 : place].isalnum() and text[place : place + 1].isalnum())


# Where a sentence starts after its run-up, where it ends, and where it may be cut.
_Parted = tuple[int, int, list[re.Match[str]]]


def _parted(folded: Folded, names: set[str], start: int, end: int) -> _Parted:
    start = _RUN_UP.match(folded.text, start, end).end()  # type: ignore[union-attr]
    is_whole = not _is_own(folded, start, names) or _HOLDS_FOR_MORE.search(folded.text, start, end)
    return start, end, [] if is_whole else list(_borders(folded, start, end))


def _clause(
    folded: Folded, names: set[str], sentence: _Parted, number: tuple[int, int]
) -> tuple[int, int]:
    """Return the start and end of the shortest independent clause around a number."""
    start, end, borders = sentence
    is_own = True  # a sentence on the work of others has no borders
    for border in borders:
        if border.start() >= number[1]:
            return start, border.start()
        begins = border.start(border.lastgroup)  # type: ignore[arg-type]
        if border.lastgroup == "subject":
            is_own = _is_own(folded, begins, names)
            if not _OTHER.match(folded.text, begins) and begins <= number[0]:
                start = begins
        elif is_own and begins <= number[0]:
            start = begins
    return start, end


def _is_own(folded: Folded, start: int, names: set[str]) -> bool:
    """True if a clause begins with the paper's own work as its subject."""
    name = re.compile(_NAME).match(folded.cased, start)
    return bool(_OWN.match(folded.text, start) or (name and name["name"] in names))


def _borders(folded: Folded, start: int, end: int) -> Iterator[re.Match[str]]:
    """Yield the borders between clauses outside of brackets, quotation marks and names."""
    text, depth, checked = folded.text, 0, start
    for border in _BORDER.finditer(text, start, end):
        passed = text[checked : border.start()]
        depth += sum(map(passed.count, "([")) - sum(map(passed.count, ")]"))
        checked = border.start()
        is_quoted = text.count('"', start, checked) % 2
        verb = border["participle"] or border["verb"]
        is_name = verb and folded.cased[border.end() - len(verb)].isupper()  # "Read and Keep"
        if depth == 0 and not is_quoted and not is_name:
            yield border


def _quote(
    abstract: str, folded: Folded, start: int, end: int, numbers: list[AbstractNumber]
) -> Quote:
    """Return a clause of the folded text as the abstract writes it."""
    first = folded.places[start - 1][1] if start else 0
    last = folded.places[end][0] if end < len(folded.places) else len(abstract)
    clause = abstract[first:last]
    return Quote(clause.strip(), last - len(clause.lstrip()), tuple(numbers))


def _plain(piece: str) -> str:
    """Return a piece as plain text with the blanks around it, "4.2×" for its formula."""
    written = _FORMULA.sub(lambda found: _SIGN.sub(_sign, found[1]), piece)
    before, after = (" " * piece[edge].isspace() for edge in (0, -1))
    return f"{before}{plain(written)}{after}"


def _sign(match: re.Match[str]) -> str:
    return _SIGNS[match[0].strip()]


def _with_formula(clause: str, start: int, end: int) -> tuple[int, int]:
    """Return the range of a number, with the whole formula that it is part of."""
    dollars = [match.start() for match in re.finditer(r"(?<!\\)\$", clause)]
    opened = sum(dollar < start for dollar in dollars)
    closed = sum(dollar < end for dollar in dollars)
    begins = dollars[opened - 1] if opened % 2 else start
    ends = dollars[closed] + 1 if closed % 2 and closed < len(dollars) else end
    return begins, ends
