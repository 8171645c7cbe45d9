"""Whether a model's statement says of a number what the paper's cells and sentences say of it.

"Ours reaches 57.9 %, the baseline 30.6 %" can be inverted without one invented number: the numbers
change places, a rise becomes a fall, a success rate an error rate. A statement is compared with the
sentences of the paper that have the same numbers. It contradicts the paper only where each of those
that can be compared says otherwise; where nothing can be compared, nothing is said.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from itertools import product

from webapp.claims.numbers import Folded, Number, fold, fold_with_places, numbers, numbers_in
from webapp.claims.tables.judge import ClaimedCell, judge, lost_to
from webapp.claims.tables.shown import ShownTable
from webapp.core.tables import table

from .assignments import ROLES, Assignment, Claimed, assignments, contradicts, words
from .paper_text import PaperText
from .schema import ClaimedNumber

REACH = 260  # characters of a sentence on either side of a number
MOST_NUMBERS = 12  # of a statement that are compared
MAX_QUOTED = 400  # characters of the paper's sentence that a page shows
_WORDS: dict[str, str] = table(__file__, "opposites.toml")
_COMMON = frozenset(_WORDS["common"].split())
# What divides a sentence into parts of which each says something of one number.
_PARTS = re.compile(
    r"(?P<open>[(\[])|[)\]]|\| \||[,;:](?!\d)"
    r"|(?<!\w)(?P<word>and|but|while|whereas|versus|vs\.?|against|compared (?:to|with)|than|over"
    r"|from|to|by|where|respectively|outperform\w*|beat\w*|exceed\w*|surpass\w*)(?!\w)"
    r"|[，；、（）]|而|但|从|到|比|以及"
)
_CLAUSES = re.compile(
    r"[;:](?!\d)|,(?!\d)|(?<!\w)(?:and|but|where|while|whereas)(?!\w)|[，；]|而|但"
)
_END = re.compile(r"[.!?。！？](?:\s|$)")
_TOKEN = re.compile(r"[a-z][a-z0-9]*(?:[-.+][a-z0-9]+)*")
_CHINESE = re.compile(r"[\u3400-\u9fff]")
_NEGATED = re.compile(r"(?<!\w)(?:not|never|cannot|fails? to|no longer)(?!\w)|n't|没有|未能|并未")


def _group(name: str) -> re.Pattern[str]:
    return re.compile(rf"(?<![a-z])(?:{'|'.join(_WORDS[name].split())})")


# Two groups of words that say the reverse of each other.
_MOVES = [(_group("rises"), _group("falls")), (_group("faster"), _group("slower"))]
_MERITS = [(_group("better"), _group("worse"))]
_KEEPS = [(_group("keeps"), _group("gives up"))]
_METRICS = [(_group("right"), _group("wrong")), (_group("quick"), _group("long"))]
_HIGH = _group("higher is better")
_LOW = _group("lower is better")
_RIVAL = re.compile(r"\b(?:[A-Z][\w-]*[A-Z0-9][\w-]*|[A-Z]{2,}[\w-]*)\b")  # H2O, SnapKV
_QUANTITY, _LEVEL = _group("quantities"), _group("says a level")
_ANYBODY = frozenset(_WORDS["anybody"].split())
_OPENING = re.compile(r"[A-Z][\w.+-]*(?: [A-Z\d][\w.+-]*){0,3}")
_OUTPERFORMS = re.compile(
    r"(?:^|[,;] ?)(?P<winner>[^,;.]{2,60}?) (?:clearly |consistently |significantly )?"
    r"(?:outperforms?|beats?|surpass(?:es)?|is better than|exceeds?) "
    r"(?P<loser>[^,;.]{2,60}?)(?= (?:on|by|in|with|at|across|for|and)\b|[,;.]|$)"
)
_BY = re.compile(r"(?<!\w)by (?:up to |about |only |over )?$")
_MORE = re.compile(
    r"^ ?(?:points? |percent |as )?(?:more|less|fewer|higher|lower|better|worse)(?!\w)"
)
_COUNTED = re.compile(r"[km]? ?(?!(?:times|points?|percent)(?!\w))([a-z]{3,})(?![\w/])")


@dataclass(frozen=True)
class Statement:
    """A statement, folded, with its numbers and the words that belong to each."""

    text: str
    figures: tuple[Number, ...]

    @staticmethod
    def of(text: str) -> "Statement":
        """A statement as it is written."""
        folded = fold_with_places(text)
        return Statement(folded.text, tuple(n for n in numbers_in(folded) if not n.is_spread))

    def clause(self, number: Number) -> str:
        """The words around a number, up to the next clause."""
        before = list(_CLAUSES.finditer(self.text, 0, number.start))
        after = _CLAUSES.search(self.text, number.end)
        start = before[-1].end() if before else 0
        return self.text[start : after.start() if after else len(self.text)]

    def counted(self, number: Number) -> str:
        """What a number counts: the word behind it, "tokens"."""
        noun = _COUNTED.match(self.text, number.digits_end)
        return noun[1] if noun else ""

    def says_difference(self, number: Number) -> bool:
        """ "by 12 %", "12 % less": what two things differ by."""
        before, after = self.text[: number.start], self.text[number.end :]
        return bool(_BY.search(before) or _MORE.search(after))

    def says_level(self, number: Number) -> bool:
        """ "keeps 96 % of it": how much something has, where no word says a difference."""
        clause = self.clause(number)
        groups = [group for pair in _MOVES + _MERITS for group in pair]
        if self.says_difference(number) or any(group.search(clause) for group in groups):
            return False
        return bool(_LEVEL.search(clause))

    def owners(self) -> list[frozenset[str]]:
        """The words that say of each number whose it is, or at which end of a change it stands."""
        parts = self._parts()
        words: list[set[str]] = [set() for _ in self.figures]
        before: tuple[int, int] | None = None  # a part with words but no number
        for start, end, mark in parts:
            here = [i for i, n in enumerate(self.figures) if start <= n.start < end]
            here = [
                i for i in here if not self.figures[i].is_word
            ] or here  # "with a quarter of it"
            own = self._words(start, end)
            if mark == "(" and not here:
                last = [i for i, n in enumerate(self.figures) if n.end <= start]
                gap = self.text[self.figures[last[-1]].end : start] if last else "none"
                if not gap.strip(" (["):
                    words[last[-1]] |= own  # 79.66 (ours)
                continue
            if mark == "(" and len(here) == 1 and before:
                own |= self._words(*before)  # the baseline (30.6 %)
            is_row = "|" in self.text[start:end]
            for i in here if len(here) == 1 or is_row else []:
                words[i] |= own | ({mark} if mark in {"from", "to"} else set())
            before = None if here else (start, end)
        if "respectively" in self.text and len(self.figures) == 2:
            self._in_turn(words)
        return [frozenset(kinds) for kinds in words]

    def _in_turn(self, words: list[set[str]]) -> None:
        """ "Ours and the baseline reach 57.9 and 30.6, respectively": the first has the first."""
        head = self.text[: self.figures[0].start]
        first, joint, second = head.rpartition(" and ")
        if joint:
            words[0], words[1] = _tokens(first), _tokens(second)

    def _parts(self) -> list[tuple[int, int, str]]:
        parts, start, mark = [], 0, ""
        inside = [range(n.start, n.end) for n in self.figures]
        for match in _PARTS.finditer(self.text):
            if any(match.start() in span for span in inside):
                continue
            parts.append((start, match.start(), mark))
            start = match.end()
            mark = "(" if match["open"] else (match["word"] or "")
        return [*parts, (start, len(self.text), mark)]

    def _words(self, start: int, end: int) -> set[str]:
        taken = [range(n.start, n.end) for n in self.figures]
        return {
            token[0]
            for token in _TOKEN.finditer(self.text, start, end)
            if len(token[0]) > 1
            and token[0] not in _COMMON
            and not any(token.start() in span for span in taken)
        }


def contradicting(statement: str, text: PaperText, tables: Sequence[ShownTable] = ()) -> str:
    """The paper's sentence or cell that says otherwise of a statement; "" where none does."""
    ours = Statement.of(statement)
    if cell := _cell_otherwise(statement, ours, text, tables):
        return cell
    for number in ours.figures[:MOST_NUMBERS]:
        compared = []
        places = text.occurrences(abs(number.value))
        if places and _is_sign_lost(ours, number, places):
            return _shown(text, _around(text.folded, places[0]))
        for span in dict.fromkeys(_around(text.folded, place) for place in places):
            theirs = _sentence(text, span)
            verdict = _compare(ours, number, theirs)
            if verdict is not None:
                compared.append((verdict, span))
        if compared and all(differs for differs, _ in compared):
            return _shown(text, compared[0][1])
    return ""


def _is_sign_lost(ours: Statement, number: Number, places: Sequence[Number]) -> bool:
    """Whether a number that the paper has below zero is told as a gain: 9 % for −9 %."""
    (up, down), (better, worse) = _MOVES[0], _MERITS[0]
    clause = ours.clause(number)
    is_gain = number.value > 0 and bool(up.search(clause) or better.search(clause))
    falls = down.search(clause) or worse.search(clause)
    return is_gain and not falls and all(place.value < 0 for place in places)


def _cell_otherwise(
    statement: str, ours: Statement, text: PaperText, tables: Sequence[ShownTable]
) -> str:
    """The cell of a table that gives a number of the statement, or the victory, to another."""
    match = _OUTPERFORMS.search(statement)
    if match and (lost := lost_to(match["winner"], match["loser"], statement, tables)):
        return lost
    opening = _OPENING.match(statement)  # whom the statement is about
    figures = tuple(n for n in ours.figures[:MOST_NUMBERS] if not n.is_word)
    for number, assigned in zip(figures, assignments(ours.text, figures), strict=True):
        subject = assigned.subject or (words(fold(opening[0])) if opening else frozenset())
        if not subject or _is_said(text, number, subject):
            continue
        about = " ".join(sorted(assigned.metric | assigned.setting | assigned.share))
        judged = judge(ClaimedCell(number.value, " ".join(sorted(subject)), about, ""), tables)
        if judged.otherwise and not judged.is_confirmed:
            return judged.otherwise
    return ""


def _is_said(text: PaperText, number: Number, subject: frozenset[str]) -> bool:
    """Whether a sentence of the paper, outside of its tables, names the subject with the number."""
    return any(
        subject <= words(_sentence(text, _around(text.folded, place)).text)
        for place in text.occurrences(number.value)
        if not text.is_in_table(place.start)
    )


def contradicting_claim(
    claimed: ClaimedNumber, text: PaperText, tables: Sequence[ShownTable] = ()
) -> str:
    """The paper's sentence or cell that says otherwise of a claim; "" where none does.

    A cell whose row and heads are sure decides; else the sentence of its quote must assign the
    number to nobody and nothing else.
    """
    figures = [n for n in numbers(f"{claimed.value} {claimed.unit}") if not n.is_spread]
    if not figures:
        return ""
    value = figures[-1].value
    about = f"{claimed.metric} {claimed.setting}"
    judged = judge(ClaimedCell(value, claimed.subject, about, claimed.quote), tables)
    if judged.is_confirmed or judged.otherwise:
        return judged.otherwise
    compared = []
    for start, end in text.places_of(claimed.quote):
        for number in text.numbers_between(start, end):
            if abs(number.value) != abs(value):
                continue
            span = _around(text.folded, number)
            compared.append((_claim_differs(claimed, value, _sentence(text, span)), span))
    if compared and all(differs for differs, _ in compared):
        return _shown(text, compared[0][1])
    return ""


def _claim_differs(claimed: ClaimedNumber, value: Decimal, theirs: Statement) -> bool:
    """Whether a sentence assigns the number to somebody or something else than a claim does."""
    figures = tuple(n for n in theirs.figures if not n.is_word)
    here = [i for i, n in enumerate(figures) if abs(n.value) == abs(value)]
    if not here:
        return False
    written = {role: fold(getattr(claimed, role)) for role in ROLES}
    claim = Claimed(written["subject"], {role: words(text) for role, text in written.items()})
    assigned = assignments(theirs.text, figures)
    return all(
        contradicts(claim, index, assigned, theirs.text)
        or _is_denied(claimed, figures[index], assigned[index], theirs)
        for index in here
    )


def _is_denied(claimed: ClaimedNumber, number: Number, here: Assignment, theirs: Statement) -> bool:
    """Whether a sentence says of a number that another metric, baseline, count or winner is it."""
    metric, named = fold(claimed.metric), " ".join(sorted(here.metric))
    if _is_opposite(metric, named, _METRICS):
        return True
    quantities = set(_QUANTITY.findall(metric)), set(_QUANTITY.findall(named))
    if all(quantities) and not quantities[0] & set(_QUANTITY.findall(theirs.text)):
        return True
    rivals = {fold(name) for name in _RIVAL.findall(claimed.baseline)}
    if here.baseline - _ANYBODY and rivals and not any(name in theirs.text for name in rivals):
        return True
    setting = Statement.of(claimed.setting)
    values = {abs(n.value) for n in theirs.figures}
    counted = {noun for n in theirs.figures if (noun := theirs.counted(n))}
    if any(abs(n.value) not in values and setting.counted(n) in counted for n in setting.figures):
        return True
    if claimed.direction == "lower" and _HIGH.search(metric) and not _LOW.search(metric):
        return not _MOVES[0][1].search(theirs.clause(number))
    return _is_loss(claimed, number, theirs)


def _is_loss(claimed: ClaimedNumber, number: Number, theirs: Statement) -> bool:
    """Whether the claim's subject loses by this number: "A loses to B by 1.9 points"."""
    ((better, worse),) = _MERITS
    before = theirs.text[: number.start]
    clause = _CLAUSES.split(before)[-1]
    loses = worse.search(clause) if _BY.search(before) and not better.search(clause) else None
    is_said = worse.search(fold(claimed.metric)) or claimed.value.strip().startswith(("-", "−"))
    loser = _tokens(before.partition(loses[0])[0]) if loses else set()
    return bool(loser & _tokens(fold(claimed.subject))) and not is_said


def _compare(ours: Statement, number: Number, theirs: Statement) -> bool | None:
    """Whether two sentences differ in what they say of a number; None where nothing compares."""
    mine = ours.figures.index(number)
    same = [i for i, n in enumerate(theirs.figures) if abs(n.value) == abs(number.value)]
    if not same:
        return None
    swapped = _swapped(ours, mine, theirs, same)
    if swapped is not None:
        return swapped
    words = ours.clause(number)
    others = [theirs.figures[at] for at in same]
    if ours.says_difference(number) and all(theirs.says_level(other) for other in others):
        return True
    return any(_is_reverse(words, theirs.clause(other)) for other in others)


def _is_reverse(words: str, clause: str) -> bool:
    """Whether a clause of a statement says of a number the reverse of the paper's clause."""
    if _is_opposite(words, clause, _METRICS):
        return True
    shared = _tokens(words) & _tokens(clause)
    if not shared and not _CHINESE.search(words):
        return False  # they may be of two quantities
    if _is_opposite(words, clause, _MOVES + _MERITS + _KEEPS):
        return not _is_mirrored(words, clause)
    is_merit = _HIGH.search(clause) and _HIGH.search(words)
    if is_merit and (_gains_and_loses(words, clause) or _gains_and_loses(clause, words)):
        return True
    is_negated = bool(_NEGATED.search(words)) != bool(_NEGATED.search(clause))
    return len(shared) > 1 and is_negated and " than " not in f"{words} {clause}"


def _is_mirrored(ours: str, theirs: str) -> bool:
    """ "B wins by 2 points" of "A loses to B by 2 points"."""
    matches = [
        [match for pair in _MOVES + _MERITS for group in pair for match in group.finditer(text)]
        for text in (ours, theirs)
    ]
    if not all(matches):
        return False
    first = [min(match.start() for match in there) for there in matches]
    subject, theirs_of = _tokens(ours[: first[0]]), _tokens(theirs[: first[1]])
    return bool(subject & _tokens(theirs[first[1] :])) and not subject & theirs_of


def _gains_and_loses(statement: str, other: str) -> bool:
    """ "improves accuracy" against "reduces accuracy"."""
    (up, down), (better, worse) = _MOVES[0], _MERITS[0]

    def has(text: str, *groups: re.Pattern[str]) -> bool:
        return any(group.search(text) for group in groups)

    gains = has(statement, better, up) and not has(statement, down, worse)
    return gains and has(other, worse, down) and not has(other, better, up)


def _swapped(ours: Statement, mine: int, theirs: Statement, same: Sequence[int]) -> bool | None:
    """Whether a number and another have changed their owners; None where owners are not known."""
    owners, others = ours.owners(), theirs.owners()
    known = False
    value = abs(ours.figures[mine].value)
    for i, j in product(range(len(ours.figures)), range(len(theirs.figures))):
        number = abs(ours.figures[i].value)
        if i == mine or number == value or abs(theirs.figures[j].value) != number:
            continue
        for at in same:
            mine_alone, its_alone = owners[mine] - owners[i], owners[i] - owners[mine]
            straight = (mine_alone & others[at]) - others[j]
            straight |= (its_alone & others[j]) - others[at]
            crossed = (mine_alone & others[j]) - others[at]
            crossed |= (its_alone & others[at]) - others[j]
            if crossed and not straight and owners[mine] and owners[i]:
                return True
            known = known or bool(straight)
    return False if known else None


def _is_opposite(
    ours: str, theirs: str, groups: Sequence[tuple[re.Pattern[str], re.Pattern[str]]]
) -> bool:
    """Whether one text has words of one side alone, and the other those of the other alone."""
    for side, other in groups:
        mine = bool(side.search(ours)), bool(other.search(ours))
        said = bool(side.search(theirs)), bool(other.search(theirs))
        if mine != said and sum(mine) == sum(said) == 1:
            return True
    return False


def _tokens(text: str) -> set[str]:
    """The words of a folded text that can tell one thing from another."""
    return {t for t in _TOKEN.findall(text) if len(t) > 1 and t not in _COMMON}


def _around(folded: Folded, number: Number) -> tuple[int, int]:
    """The sentence around a number, as far as REACH."""
    low, high = max(0, number.start - REACH), min(len(folded.text), number.end + REACH)
    ends = [m.end() for m in _END.finditer(folded.text, low, number.start)]
    last = _END.search(folded.text, number.end, high)
    return (ends[-1] if ends else low), (last.end() if last else high)


def _sentence(text: PaperText, span: tuple[int, int]) -> Statement:
    start, end = span
    inside = [n for n in text.numbers_between(start, end) if n.end <= end and not n.is_spread]
    return Statement(text.folded.text[start:end], tuple(n.moved(-start) for n in inside))


def _shown(text: PaperText, span: tuple[int, int]) -> str:
    """The sentence as the paper writes it."""
    start, end = text.folded.place(span[0], max(span[0] + 1, span[1]))
    return " ".join(text.original[start:end].split())[:MAX_QUOTED]
