"""The words of a sentence that belong to each of its numbers.

A sentence is divided into clauses. A number has the words of its clause, up to the next number, and
the subject of an earlier clause only where its own has none: in "Heron reaches 57.9 % and Wren
30.6 %" the second number is Wren's, in "Heron reaches 57.9 % precision and 30.6 % recall" Heron's.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from webapp.claims.extraction.expressions import Expression, expressions
from webapp.claims.extraction.outcomes import is_setting
from webapp.claims.extraction.place import Context
from webapp.claims.numbers import Folded, Number
from webapp.core.tables import table

_WORDS: dict[str, str] = table(__file__, "opposites.toml")
_COMMON = frozenset(f"{_WORDS['common']} {_WORDS['general']}".split())
_QUANTITIES = frozenset(_WORDS["measured"].split())
_TOKEN = re.compile(r"[a-z][a-z0-9]*(?:[-.+@/:][a-z0-9.]*[a-z0-9])*|\d+[a-z]+")
_BORDER = re.compile(
    r"[,;](?!\d)|:(?=\s)|[()]|(?<!\w)(?:and|but|while|whereas|which|that|where|when|if|after|before"
    r"|because|since|as well as)(?!\w)"
)
_VERB = re.compile(
    r"(?<![\w-])(?:achiev|reach|attain|obtain|yield|produc|keep|need|requir|report|record|deliver|"
    r"improv|increas|reduc|lower|rais|boost|decreas|cut|limit|score|generat|flag|fail|identif|"
    r"show|has|have|gets?|gains?|is|are|was|were|outperform|surpass|exceed|beat|takes?|runs?|"
    r"falls?|fell|rises?|rose|drop|grow|grew|set|sett|los|speed|explain|scal|detect|miss|"
    r"offer|mitigat|provid|enabl|captur|demonstrat|enhanc|preserv|maintain|retain|accelerat|consum"
    r"|cost|sav|halv|recover|match|accept|support|us|train|appl|find|lead)"
    r"(?:e[sd]?|s|d|ed|ing|ting)?(?!\w)"
)
_BEGINS_NO_SUBJECT = re.compile(
    r"\s*(?:by|with|from|to|of|at|for|on|in|under|across|using|than|over|among|with|after|before|against|extensive|\w+ing|thereby)(?!\w)"
)
AGAINST = re.compile(
    r"(?<!\w)(?:outperform\w*|surpass\w*|exceed\w*|beat\w*|than|over|against|versus|vs|above|below"
    r"|compared|relative to)(?!\w)"
)
_PREPOSITION = re.compile(r"(?<!\w)(?:with|by|of|to|from|at|a|an|on|for|in)(?!\w)")
_ABSOLUTE = re.compile(r"^\s*with (?=(?:\S+ ){1,4}(?:achiev|reach|obtain|attain)ing )")
_NAMES = re.compile(r" ?-[a-z]")  # "20-class"
_CONTRAST = re.compile(r"while|whereas|but|[;:]")  # the next clause has a subject of its own
WE = re.compile(r"(?<!\w)(?:we|ours?|it|this|the proposed)(?!\w)")
_JOINT = re.compile(r"\W*(?:and|or|to|vs|versus|respectively)?\W*")
EARLIER = 3  # clauses in which a subject is looked for


@dataclass(frozen=True)
class Owned:
    """A number of a sentence with its words, folded."""

    number: Number
    subject: str  # up to what it is compared with
    clause: str  # its own words, before and behind it
    behind: str
    opening: str  # a phrase that begins the sentence: "on mnist"
    others: str  # the words of the other numbers
    is_listed: bool  # beside another number, without a word between them
    is_first: bool  # of a change: the 19 of "from 19 to 35"

    @property
    def text(self) -> str:
        """All words that are its own."""
        return f"{self.opening} {self.subject} {self.clause}"


def owned(sentence: Folded) -> list[Owned]:
    """Return each result of a sentence with its words; settings are words."""
    results = list(_results(sentence))
    clauses = _clauses(sentence.text, results)
    owners = []
    for index, result in enumerate(results):
        gaps = _gap(sentence.text, results, index), _gap(sentence.text, results, index + 1)
        is_listed = any(gap is not None and _JOINT.fullmatch(gap) for gap in gaps)
        before, behind = _own_words(sentence.text, clauses, results, index)
        others = " ".join(
            " ".join(_own_words(sentence.text, clauses, results, other))
            for other in range(len(results))
            if other != index
        )
        first = clauses[0]
        has_result = any(first[0] <= r.start < first[1] for r in results)
        opening = "" if has_result or len(clauses) == 1 else sentence.text[slice(*first)]
        for number in result.numbers:
            owners.append(
                Owned(
                    number=number,
                    subject=_subject(sentence.text, clauses, results, index, before),
                    clause=f"{before} {behind}",
                    behind=behind,
                    opening=opening if _BEGINS_NO_SUBJECT.match(opening) else "",
                    others=others,
                    is_listed=is_listed,
                    is_first=(result.is_change and number is not result.numbers[-1])
                    or sentence.text[: number.start].endswith("from "),
                )
            )
    return owners


def words(text: str) -> frozenset[str]:
    """Return the words of a folded text that tell one thing from another."""
    tokens = (token for token in _TOKEN.findall(text) if not _VERB.fullmatch(token))
    stems = {re.sub(r"(?<=[a-z]{2}[a-rtv-z])s$", "", token) for token in tokens}
    return frozenset(
        word for word in stems if word in _QUANTITIES or (len(word) > 1 and word not in _COMMON)
    )


def quantities(text: str) -> frozenset[str]:
    """Return the words of a folded text that name what is measured."""
    return words(text) & _QUANTITIES


def _results(sentence: Folded) -> Iterator[Expression]:
    context, setting = Context(sentence), None
    for expression in expressions(sentence):
        place = context.around(expression.start, expression.end)
        if is_setting(expression, place, setting):
            setting = expression
        elif not expression.numbers[-1].is_word and not _NAMES.match(sentence.text, expression.end):
            yield expression


def _gap(text: str, results: Sequence[Expression], index: int) -> str | None:
    """Return the words between a result and the one before it."""
    if not 0 < index < len(results):
        return None
    return text[results[index - 1].end : results[index].start]


def _clauses(text: str, results: Sequence[Expression]) -> list[tuple[int, int]]:
    """Return where clauses begin and end; brackets without a result are part of theirs."""
    asides = [
        aside.span()
        for aside in re.finditer(r"\([^()]*\)", text)
        if not any(aside.start() <= r.start < aside.end() for r in results)
    ]
    asides += [(result.start, result.end) for result in results]
    borders = [
        border
        for border in _BORDER.finditer(text)
        if not any(start <= border.start() < end for start, end in asides)
    ]
    # The words before a bracket that begins with its number: "the baseline (30.6 %)".
    borders = [
        border
        for border in borders
        if border[0] != "("
        or not any(not text[border.end() : result.start].strip(" ~") for result in results)
    ]
    starts = [0, *(border.end() for border in borders)]
    ends = [*(border.start() for border in borders), len(text)]
    spans = zip(starts, ends, strict=True)
    return [(start, end) for start, end in spans if text[start:end].strip()] or [(0, len(text))]


def _clause_of(clauses: Sequence[tuple[int, int]], result: Expression) -> int:
    return max((i for i, (start, _) in enumerate(clauses) if start <= result.start), default=0)


def _own_words(
    text: str, clauses: Sequence[tuple[int, int]], results: Sequence[Expression], index: int
) -> tuple[str, str]:
    """Return the words of a result's clause before and behind it, up to its neighbours."""
    result = results[index]
    start, end = clauses[_clause_of(clauses, result)]
    if index and results[index - 1].end > start:
        start = _divide(text, results[index - 1].end, result.start)
    if index + 1 < len(results) and results[index + 1].start < end:
        end = _divide(text, result.end, results[index + 1].start)
    return text[start : result.start], text[result.end : max(end, result.end)]


def _divide(text: str, start: int, end: int) -> int:
    """Return where the words between two numbers of a clause pass from the first to the second."""
    prepositions = list(_PREPOSITION.finditer(text, start, end))
    return prepositions[-1].start() if prepositions else end


def _subject(
    text: str,
    clauses: Sequence[tuple[int, int]],
    results: Sequence[Expression],
    index: int,
    before: str,
) -> str:
    """Return the words that name whose a number is, from the nearest clause that has some."""
    clause = _clause_of(clauses, results[index])
    if named := _named(before):
        return named
    beside = "" if _VERB.search(before) else before  # "with average recall at"
    start, end = clauses[clause]
    first = min((r.start for r in results if start <= r.start < end), default=results[index].start)
    if first < results[index].start and (named := _named(text[start:first])):
        return f"{named} {beside}"
    for earlier in range(clause - 1, max(-1, clause - 1 - EARLIER), -1):
        following = text[clauses[earlier][1] : clauses[earlier + 1][0]]
        if _CONTRAST.search(following):
            break
        start, end = clauses[earlier]
        first = min((r.start for r in results if start <= r.start < end), default=end)
        piece = text[start:first]
        if (_VERB.search(piece) or "which" in following) and (named := _named(piece)):
            return f"{named} {beside}"
    return beside


def _named(piece: str) -> str:
    """Return the subject that a piece of a sentence names, "" for none."""
    piece = _ABSOLUTE.sub("", piece)
    verb = _VERB.search(piece)
    if verb is None and (against := AGAINST.search(piece)):
        return piece[against.end() :]  # "slightly above Wren with"
    if _BEGINS_NO_SUBJECT.match(piece):
        return ""
    if verb is None and re.search(r"(?<!\w)(?:of|at|by|to|with)\s+(?:\S+\s+){0,2}$", piece):
        return ""  # "a recall of"
    named = AGAINST.split(piece[: verb.start()] if verb else piece)[0]
    return named if words(named) - _QUANTITIES or WE.search(named) else ""
