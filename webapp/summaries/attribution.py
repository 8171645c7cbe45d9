"""Attribution of the words of a sentence to each of its numbers.

A sentence is divided into clauses. A number has the words of its clause, up to the next number, and
the subject of an earlier clause only where its own has none: in "Heron reaches 57.9 % and Wren
30.6 %" the second number is Wren's, in "Heron reaches 57.9 % precision and 30.6 % recall" Heron's.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

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
    r"|compared|relative to|instead of)(?!\w)"
)
_PREPOSITION = re.compile(r"(?<!\w)(?:with|by|of|to|from|at|a|an|on|for|in)(?!\w)")
_ABSOLUTE = re.compile(r"^\s*with (?=(?:\S+ ){1,4}(?:achiev|reach|obtain|attain)ing )")
_COUNTED = re.compile(
    r" (?!(?:on|in|at|for|with|per|and|or|over|than|by|to|from|of|as|vs|when|while|points?)(?!\w))"
    r"([a-z]+)"
)
_NAMES = re.compile(r" ?-[a-z]")  # "20-class"
# The next clause has a subject of its own; "while reducing" has that of the clause before it.
_CONTRAST = re.compile(r"(?<!\w)(?:while|whereas|but)(?!\w)(?! \w+ing(?!\w))|[;:]")
WE = re.compile(
    r"(?<!\w)(?:we|ours?|it|this|the (?:proposed|resulting|method|model|framework|approach|system"
    r"|algorithm|pipeline))(?!\w)"
)
# "Experiments on MNIST show that": what follows names the subject.
_REPORTED = re.compile(
    r"^.*?(?<!\w)(?:show|demonstrat|reveal|indicat|confirm|suggest|illustrat|validat)\w*"
    r"(?: that)?(?!\w)"
)
_FROM = re.compile(
    r"(?<!\w)(?:from|instead of|rather than) (?:(?:an?|the|about|around|only|nearly|over) )*"
    r"(?:[a-z-]+ )?$"
)
_GERUND = re.compile(r"\s*\w+ing(?!\w)")
_LAST_WORD = re.compile(r"([\w-]+)\W*$")
_BY = re.compile(r"(?<!\w)by\W*(?:\w+ ){0,3}$")
_BEHIND = re.compile(r"\s*(?:for|of|by|in|with|from)\s+(?P<name>.+)")
REACH_OF_PARTICIPLE = 20
ANOTHER = "another"  # subject of a number that is not the paper's own, and has no name
_RESPECTIVELY = re.compile(r"(?<!\w)respectively(?!\w)")
# No comparison with another, but a bound: "less than 3%", "over 50%".
_THAN_A_NUMBER = re.compile(
    r"(?:(?:less|more|fewer|greater|higher|lower|better) than|over|above|below) (?:an? )?$"
)
# A member of a list: words up to a preposition, an article or a comma.
_MEMBER = (
    r"(?:(?!(?:with|by|of|to|from|at|an?|on|for|in|the|and|or|both|respectively)\b)"
    r"[^\s,;()]++ ?+)"
)
_LIST = re.compile(rf"{_MEMBER}{{1,4}}(?:, ?{_MEMBER}{{1,4}})*,? ?and (?:the )?{_MEMBER}{{1,4}}")
_IN_LIST = re.compile(rf"{_MEMBER}{{1,4}}")
_JOINT = re.compile(r"\W*(?:and|or|to|vs|versus|respectively)?\W*")
EARLIER = 3  # clauses in which a subject is looked for


@dataclass(frozen=True)
class Attribution:
    """A number of a sentence and the parts of its folded text that say what it is."""

    number: Number
    subject: str  # up to what it is compared with
    label: str  # what precedes it in a list: another subject, a metric or a setting
    list_subject: str  # the subject of the list, and of the number if the label is no subject
    clause: str  # its part of its clause, before and behind it
    behind: str
    listed: str  # what a list says of each of its numbers: "heron reaches a score"
    opening: str  # a phrase that begins the sentence: "on mnist"
    shared: str  # all clauses without a number
    measured: frozenset[str]  # what the number before it in the sentence measures, in its unit
    rival: str  # the text of the number that it is compared with
    others: str  # the text of the other numbers
    is_listed: bool  # beside another number, without a word between them
    is_first: bool  # of a change: the 19 of "from 19 to 35"

    @property
    def text(self) -> str:
        """Return the text that is about this number alone."""
        return f"{self.opening} {self.subject} {self.clause}"

    @property
    def passage(self) -> str:
        """Return the text of its clause and its list."""
        return f"{self.listed} {self.subject} {self.clause}"

    @property
    def around(self) -> str:
        """Return all text that may apply to it."""
        return f"{self.shared} {self.passage}"


def attributions(sentence: Folded) -> list[Attribution]:
    """Return the results of a sentence with their text; the numbers of settings are text."""
    results = list(_results(sentence))
    whole = _Sentence(sentence.text, results)
    attributed = []
    for index, result in enumerate(results):
        part, place, foreign = whole, index, ""
        run = whole.run(index)
        if len(run) > 1 and _RESPECTIVELY.search(sentence.text):
            text, foreign = _without_other_members(sentence.text, results, run, index)
            kept = [r for i, r in enumerate(results) if i == index or i not in run]
            part, place = _Sentence(text, kept), kept.index(result)
        for number in result.numbers:
            is_first = result.is_change and number is not result.numbers[-1]
            is_first = is_first or bool(_FROM.search(sentence.text[: number.start]))
            is_listed = len(run) > 1 and not foreign
            attributed.append(part.attribution(place, number, foreign, is_listed, is_first))
    return attributed


def _without_other_members(
    text: str, results: Sequence[Expression], run: range, index: int
) -> tuple[str, str]:
    """Return a sentence with "respectively" for one number of a run, and its text for the others.

    In each list of as many members as the run has numbers, the others are blank, and so are their
    numbers. The second text is empty if there is no such list.
    """
    foreign = []
    blanked = list(text)

    def blank(start: int, end: int) -> None:
        blanked[start:end] = " " * (end - start)

    for other in run:
        if other != index:
            blank(results[other].start, results[other].end)
    for found in _LIST.finditer(text):
        if any(found.start() < r.end and r.start < found.end() for r in results):
            continue
        members = list(_IN_LIST.finditer(text, *found.span()))
        if len(members) != len(run):
            continue
        for place, member in enumerate(members):
            if place != index - run.start:
                foreign.append(member[0])
                blank(*member.span())
    return "".join(blanked), " ".join(foreign)


@dataclass(frozen=True)
class _Sentence:
    """A folded sentence and the results in it."""

    text: str
    results: list[Expression]

    @cached_property
    def clauses(self) -> list[tuple[int, int]]:
        return _clauses(self.text, self.results)

    def attribution(
        self, index: int, number: Number, foreign: str, is_listed: bool, is_first: bool
    ) -> Attribution:
        """Return a number of a result with its text."""
        before, behind = self._text_beside(index)
        others = [" ".join(self._text_beside(i)) for i in range(len(self.results)) if i != index]
        is_elliptic = self._is_elliptic(index)
        subject = _compared_with(before, behind) or self._subject(index, before)
        return Attribution(
            number=number,
            subject=subject,
            label=before if is_elliptic else "",
            list_subject=self._subject(index, "") if is_elliptic else subject,
            clause=f"{before} {behind}",
            behind=behind,
            listed=self._listed(index),
            opening=self._opening(),
            shared=self._shared(index),
            measured=self._measured_before(index),
            rival=self._rival(index),
            others=" ".join([*others, foreign]),
            is_listed=is_listed,
            is_first=is_first,
        )

    def run(self, index: int) -> range:
        """Return the results around one with no word between them: "0.9, 0.8 and 0.7"."""
        first, last = index, index
        while first and self._is_joint(first):
            first -= 1
        while last + 1 < len(self.results) and self._is_joint(last + 1):
            last += 1
        return range(first, last + 1)

    def _is_joint(self, index: int) -> bool:
        is_change = _FROM.search(self.text[: self.results[index - 1].start])
        return bool(_JOINT.fullmatch(self._gap(index))) and not is_change

    def _gap(self, index: int) -> str:
        """Return the words between a result and the one before it."""
        gap = self.text[self.results[index - 1].end : self.results[index].start]
        return _THAN_A_NUMBER.sub("", gap)

    def _clause_of(self, index: int) -> int:
        start = self.results[index].start
        return max((i for i, clause in enumerate(self.clauses) if clause[0] <= start), default=0)

    def _text_beside(self, index: int) -> tuple[str, str]:
        """Return the text of a result's clause before and behind it, up to its neighbours."""
        result = self.results[index]
        start, end = self.clauses[self._clause_of(index)]
        if index and self.results[index - 1].end > start:
            start = _divide(self.text, self.results[index - 1].end, result.start)
        if index + 1 < len(self.results) and self.results[index + 1].start < end:
            end = _divide(self.text, result.end, self.results[index + 1].start)
        before = _THAN_A_NUMBER.sub("", self.text[start : result.start])
        return before, self.text[result.end : max(end, result.end)]

    def _is_elliptic(self, index: int) -> bool:
        """True if a number continues a list whose verb stands before the first number."""
        gap = self._gap(index) if index else "is"
        return not (_VERB.search(gap) or AGAINST.search(gap) or _CONTRAST.search(gap))

    def _measured_before(self, index: int) -> frozenset[str]:
        """Return what the number before one measures if both have the same unit."""
        pair = self.results[max(0, index - 1) : index + 1]
        units = {result.numbers[-1].unit for result in pair}
        if len(pair) < 2 or len(units) > 1:
            return frozenset()
        named = quantities(" ".join(self._text_beside(index - 1)))
        return named or self._measured_before(index - 1)

    def _rival(self, index: int) -> str:
        """Return the text of the next number if the sentence compares this one with it."""
        if index + 1 == len(self.results) or not AGAINST.search(self._gap(index + 1)):
            return ""
        return f"{self._gap(index + 1)} {' '.join(self._text_beside(index + 1))}"

    def _opening(self) -> str:
        """Return the phrase before the first comma if it is no clause."""
        start, end = self.clauses[0]
        has_result = any(start <= result.start < end for result in self.results)
        is_phrase = not has_result and len(self.clauses) > 1
        opening = self.text[start:end]
        return opening if is_phrase and _BEGINS_NO_SUBJECT.match(opening) else ""

    def _shared(self, index: int) -> str:
        """Return the clauses without a number, up to a contrast with the number's clause."""
        result, parts = self.results[index], []
        for start, end in self.clauses:
            between = (end, result.start) if end <= result.start else (result.end, start)
            has_result = any(start <= other.start < end for other in self.results)
            if not has_result and not _CONTRAST.search(self.text, *between):
                parts.append(self.text[start:end])
        return " ".join(parts)

    def _listed(self, index: int) -> str:
        """Return what a list says of each of its numbers.

        That is its beginning up to what differs ("heron reaches a score" of "a score of 57.9% on
        mnist and 30.6% on ade20k"), and its end if nothing stands behind the earlier numbers.
        """
        first = last = index
        while self._is_elliptic(first):
            first -= 1
        while last + 1 < len(self.results) and self._is_elliptic(last + 1):
            last += 1
        parts = []
        if first < index:
            start, end = self.clauses[self._clause_of(first)][0], self.results[first].start
            prepositions = [found.start() for found in _PREPOSITION.finditer(self.text, start, end)]
            parts.append(self.text[start : prepositions[-1] if prepositions else end])
        behind = [self._text_beside(i)[1] for i in range(index, last + 1)]
        if last > index and not any(terms(text) - _QUANTITIES for text in behind[:-1]):
            parts.append(behind[-1])
        return " ".join(parts)

    def _subject(self, index: int, before: str) -> str:
        """Return the subject of a number from the nearest clause that names one."""
        if named := _named(before):
            return named
        text, clause = self.text, self._clause_of(index)
        beside = "" if _VERB.search(before) else before  # "with average recall at"
        start, end = self.clauses[clause]
        first = self._first_result(start, end, self.results[index].start)
        if first < self.results[index].start and (named := _named(text[start:first])):
            return f"{named} {beside}"
        for earlier in range(clause - 1, max(-1, clause - 1 - EARLIER), -1):
            following = text[self.clauses[earlier][1] : self.clauses[earlier + 1][0]]
            begins = self.clauses[earlier + 1][0]
            if _CONTRAST.search(text, self.clauses[earlier][1], begins + REACH_OF_PARTICIPLE):
                return beside or ANOTHER
            start, end = self.clauses[earlier]
            piece = text[start : self._first_result(start, end, end)]
            if (_VERB.search(piece) or "which" in following) and (named := _named(piece)):
                return f"{named} {beside}"
        return beside

    def _first_result(self, start: int, end: int, default: int) -> int:
        """Return where the first result of a clause begins."""
        starts = (result.start for result in self.results if start <= result.start < end)
        return min(starts, default=default)


def terms(text: str) -> frozenset[str]:
    """Return the terms of a folded text that tell one thing from another."""
    tokens = (token for token in _TOKEN.findall(text) if not _VERB.fullmatch(token))
    stems = {re.sub(r"(?<=[a-z]{2}[a-rtv-z])s$", "", token) for token in tokens}
    return frozenset(
        word for word in stems if word in _QUANTITIES or (len(word) > 1 and word not in _COMMON)
    )


def quantities(text: str) -> frozenset[str]:
    """Return the terms of a folded text that name what is measured."""
    return terms(text) & _QUANTITIES


def _results(sentence: Folded) -> Iterator[Expression]:
    context, setting = Context(sentence), None
    for expression in expressions(sentence):
        place = context.around(expression.start, expression.end)
        if is_setting(expression, place, setting):
            setting = expression
        elif not (expression.numbers[-1].is_word or _names_or_counts(sentence.text, expression)):
            yield expression


def _names_or_counts(text: str, expression: Expression) -> bool:
    """True if a number is part of a name or counts things: "20-class", "20 features"."""
    if _NAMES.match(text, expression.end):
        return True
    counted = _COUNTED.match(text, expression.end)
    is_whole = all(number.value == int(number.value) for number in expression.numbers)
    is_plain = counted and not (terms(counted[1]) & _QUANTITIES or _VERB.fullmatch(counted[1]))
    return bool(is_plain and is_whole and not expression.unit)


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


def _divide(text: str, start: int, end: int) -> int:
    """Return where the text between two numbers of a clause passes from the first to the second."""
    prepositions = list(_PREPOSITION.finditer(text, start, end))
    return prepositions[-1].start() if prepositions else end


def _named(piece: str) -> str:
    """Return the subject that a piece of a sentence names, "" for none."""
    piece = _ABSOLUTE.sub("", piece)
    reported = _REPORTED.sub("", piece)
    return (_named_before_verb(reported) if reported != piece else "") or _named_before_verb(piece)


def _named_before_verb(piece: str) -> str:
    verb = _VERB.search(piece)
    if verb is None and (against := AGAINST.search(piece)):
        return piece[against.end() :]  # "slightly above Wren with"
    is_gerund = _GERUND.match(piece) and verb and verb.start() and not verb[0].endswith("ing")
    if _BEGINS_NO_SUBJECT.match(piece) and not is_gerund:
        return ""
    if verb is None and re.search(r"(?<!\w)(?:of|at|by|to|with)\s+(?:\S+\s+){0,2}$", piece):
        return ""  # "a recall of"
    named = AGAINST.split(piece[: verb.start()] if verb else piece)[0]
    last = _LAST_WORD.search(named)
    if WE.search(named):
        return named
    is_quantity = last is not None and last[1] in _QUANTITIES  # "the validation loss"
    return named if terms(named) and not is_quantity else ""


def _compared_with(before: str, behind: str) -> str:
    """Return the subject of a number that another is compared with, "" if it is no such number."""
    against = list(AGAINST.finditer(before))
    if not against or _BY.search(before):
        return ""
    name = re.sub(r"^\s*(?:to|with|the|an?)(?!\w)|[\s(:]+$", "", before[against[-1].end() :])
    if _VERB.search(name) or _PREPOSITION.search(name):
        return ""
    if not name.strip():
        behind_it = _BEHIND.match(behind)
        name = behind_it["name"] if behind_it else ""
    return name if terms(name) else ANOTHER
