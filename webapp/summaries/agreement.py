"""Checks that a paper gives a model's number to the same subject, metric and setting.

A claim is found only if one passage, or one cell of a table, states all of it. The paper
contradicts it only if it gives another value for the same subject, metric and setting, and this
value to something else. Otherwise the number was found but its attribution was not checked.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from webapp.claims.numbers import Folded, Number, fold, fold_with_places, numbers
from webapp.claims.tables.judge import ClaimedCell, gives_cell, judge, lost_to
from webapp.claims.tables.shown import ShownTable
from webapp.core.tables import table

from .attribution import AGAINST, WE, Attribution, attributions, quantities, terms
from .details import gives, phrases
from .paper_text import PaperText
from .schema import ClaimedNumber

REACH = 260  # characters of a sentence on either side of a number
MOST_NUMBERS = 12  # of a statement that are compared
MAX_QUOTED = 400  # characters of the paper's sentence that a page shows
_END = re.compile(r"[.!?。！？](?:\s|$)")
_DIFFERENCE = re.compile(
    r"reduc|increas|decreas|gain|improv|drop|boost|ris[ei]|speed|fast|slow|lower|higher|fewer|more"
    r"|less|differ|chang|sav|declin|loss|cut|relative|margin"
)
_BY = re.compile(r"(?<!\w)by (?:(?:up to|about|only|over|at least|an? \w+) )?$")
_MORE = re.compile(
    r"^\W?(?:points? |percent(?:age points?)? )?"
    r"(?:more|less|fewer|higher|lower|better|worse|improvement|gain|increase|reduction|drop)"
)
_OUTPERFORMS = re.compile(
    r"(?:^|[,;] ?)(?P<winner>[^,;.]{2,60}?) (?:clearly |consistently |significantly )?"
    r"(?:outperforms?|beats?|surpass(?:es)?|is better than|exceeds?) "
    r"(?P<loser>[^,;.]{2,60}?)(?= (?:on|by|in|with|at|across|for|and)\b|[,;.]|$)"
)
_CHANGE = re.compile(
    r"\b(?:(?:relative|absolute) )?(?:improvements?|gains?|lift|increases?|reductions?|drops?"
    r"|enhancements?|degradation|decreases?|changes?)(?: (?:in|of))?\b"
)
_SHARE = re.compile(r"\b(?:shares?|proportion|percentage|fraction|number)(?: of)?\b")
_ASIDE = re.compile(r"\([^()]*\)?")
_ANY = frozenset({"rate", "score"})  # which do not tell one metric from another
_NEGATED = re.compile(r"(?<!\w)(?:not|never|cannot|fails? to|no longer)(?!\w)|n't")
_WORDS: dict[str, str] = table(__file__, "opposites.toml")


def _group(*names: str) -> re.Pattern[str]:
    beginnings = "|".join(word for name in names for word in _WORDS[name].split())
    return re.compile(rf"(?<![a-z])(?:{beginnings})")


# Two groups of words that say the reverse of each other.
_OPPOSITES = [
    (_group("rises"), _group("falls")),
    (_group("faster"), _group("slower")),
    (_group("better"), _group("worse")),
    (_group("keeps"), _group("gives up")),
    (_group("right"), _group("wrong")),
    (_group("quick"), _group("long")),
]
_LEVEL = _group("says a level")
_UP, _DOWN = _group("rises", "better"), _group("falls", "worse")


@dataclass(frozen=True)
class Agreement:
    """Result of checking a claim in a paper; `otherwise` is a passage or cell against it, or ""."""

    is_found: bool
    otherwise: str = ""


def check_claim(
    claimed: ClaimedNumber, text: PaperText, tables: Sequence[ShownTable] = ()
) -> Agreement:
    """Check a model's claim against the passages and tables of its paper."""
    figures = [n for n in numbers(f"{claimed.value} {claimed.unit}") if not n.is_spread]
    if not figures:
        return Agreement(is_found=False)
    value = figures[-1].value
    cell = ClaimedCell(value, claimed.subject, f"{claimed.metric} {claimed.setting}", claimed.quote)
    if gives_cell(cell, tables):
        return Agreement(is_found=True)
    judged = judge(cell, tables)
    if judged.otherwise and not judged.is_confirmed:
        return Agreement(is_found=False, otherwise=judged.otherwise)
    quoted = text.places_of(claimed.quote)
    otherwise = ""
    for number in text.occurrences(value):
        sentence, span = _sentence(text, number)
        readings = attributions(sentence)
        mine = [reported for reported in readings if abs(reported.number.value) == abs(value)]
        if any(_gives(claimed, reported, text) for reported in mine):
            return Agreement(is_found=True)
        if any(start <= number.start < end for start, end in quoted):
            others = [reported for reported in readings if reported not in mine]
            if mine and any(_gives_another(claimed, mine, reported, text) for reported in others):
                otherwise = _shown(text, span)
    return Agreement(is_found=False, otherwise=otherwise)


def check_statement(
    statement: str, text: PaperText, tables: Sequence[ShownTable] = ()
) -> Agreement:
    """Check a model's sentence against its paper: every number, and who outperforms whom."""
    match = _OUTPERFORMS.search(statement)
    if match and (lost := lost_to(match["winner"], match["loser"], statement, tables)):
        return Agreement(is_found=False, otherwise=lost)
    folded, is_found = fold_with_places(statement), True
    for reported in attributions(folded)[:MOST_NUMBERS]:
        if reported.number.is_spread or _is_given(reported, folded, text, tables):
            continue
        is_found = False
        about = f"{reported.clause} {reported.opening}"
        judged = judge(ClaimedCell(reported.number.value, reported.subject, about, ""), tables)
        if reported.subject and judged.otherwise and not judged.is_confirmed:
            return Agreement(is_found=False, otherwise=judged.otherwise)
        places = [
            p for p in text.occurrences(reported.number.value) if not text.is_in_table(p.start)
        ]
        if places and all(_is_reversed(reported, place, text) for place in places):
            return Agreement(is_found=False, otherwise=_shown(text, _span(text, places[0])))
    return Agreement(is_found=is_found)


def _gives(claimed: ClaimedNumber, reported: Attribution, text: PaperText) -> bool:
    """True if a passage attributes the number to everything that the claim says of it."""
    if (
        reported.is_listed
        or reported.is_first
        or (_is_difference(reported) and not _says_difference(claimed))
    ):
        return False
    subject = claimed.subject or "we"
    of_subject, *further = phrases(subject) or [subject]
    details = fold(" ".join((subject, claimed.metric, claimed.setting)))
    label = terms(_ASIDE.sub("", reported.label))
    is_label_said = all(_is_among(word, terms(details)) for word in label)
    subjects = [reported.list_subject] * is_label_said + [reported.label] * bool(label)
    if not any(_names_subject(of_subject, named, text) for named in subjects):
        return False
    is_clause_said = all(_is_among(word, terms(details)) for word in terms(reported.clause))
    inherited = reported.measured if is_clause_said else frozenset()
    if not all(
        _gives_metric(phrase, reported, inherited, text) for phrase in phrases(claimed.metric)
    ):
        return False
    settings = [*further, *phrases(claimed.setting)]
    if not all(gives(phrase, reported.around, text) for phrase in settings):
        return False
    compared = f"{reported.around} {reported.rival}"
    if AGAINST.search(compared):
        if not all(gives(phrase, compared, text) for phrase in phrases(claimed.baseline)):
            return False
        details += f" {fold(claimed.baseline)}"
    foreign = terms(reported.others) - terms(reported.passage) - terms(fold(of_subject)) - inherited
    return not terms(details) & foreign


def _names_subject(claimed: str, named: str, text: PaperText) -> bool:
    """True if a passage's subject is the claimed one, or both are the paper's own work."""
    if _is_own_work(fold(claimed), text) and (_is_own_work(named, text) or not terms(named)):
        return True
    return gives(claimed, named, text, unspecific=False)


def _is_own_work(named: str, text: PaperText) -> bool:
    """True if a folded subject is "we", "the method" or a name of the paper's own method."""
    names = (re.escape(fold(name)) for name in text.own_names)
    return bool(WE.search(named)) or any(re.search(rf"(?<!\w){n}(?!\w)", named) for n in names)


def _gives_metric(
    metric: str, reported: Attribution, inherited: frozenset[str], text: PaperText
) -> bool:
    """True if the words of a number have a metric, in the same direction.

    A number that has a metric of its own has none of the whole sentence, nor of another number.
    """
    folded, asides = fold(metric), " ".join(_ASIDE.findall(reported.clause))
    measured = [quantities(part) - _ANY for part in (_ASIDE.sub("", reported.clause), asides)]
    claimed = quantities(folded) - _ANY
    if any(measured) and claimed not in [*measured, measured[0] | measured[1]]:
        return False
    if any(_is_opposite(folded, reported.clause, g) for g in (*_OPPOSITES, (_UP, _DOWN))):
        return False
    plain = _SHARE.sub("", _CHANGE.sub("", metric)).strip()
    if not plain:
        return bool(_DIFFERENCE.search(reported.clause))
    return gives(plain, f"{reported.around} {' '.join(() if measured[0] else inherited)}", text)


def _gives_another(
    claimed: ClaimedNumber, mine: Sequence[Attribution], other: Attribution, text: PaperText
) -> bool:
    """True if a passage has another value for the claim, and its value for another."""
    alike = [reported for reported in mine if reported.number.unit == other.number.unit]
    if not alike or not _gives(claimed, other, text):
        return False
    claimed_words = terms(fold(f"{claimed.subject} {claimed.metric} {claimed.setting}"))
    if not terms(other.behind) <= claimed_words:
        return False
    metric = quantities(fold(claimed.metric))
    return all(
        not reported.is_listed
        and (
            bool(reported.subject and not terms(reported.subject) & terms(fold(claimed.subject)))
            or bool(
                metric and quantities(reported.clause) and not metric & quantities(reported.clause)
            )
        )
        for reported in alike
    )


def _is_difference(reported: Attribution) -> bool:
    before = reported.clause[: len(reported.clause) - len(reported.behind)]
    return bool(_BY.search(before.rstrip(" ~") + " ") or _MORE.match(reported.behind))


def _says_difference(claimed: ClaimedNumber) -> bool:
    return bool(claimed.baseline.strip() or _DIFFERENCE.search(fold(claimed.metric)))


def _is_given(
    reported: Attribution, statement: Folded, text: PaperText, tables: Sequence[ShownTable]
) -> bool:
    """True if a passage or cell says the same about a number as a statement does."""
    about = f"{reported.clause} {reported.opening}"
    if gives_cell(ClaimedCell(reported.number.value, reported.subject, about, ""), tables):
        return True
    names = _names(reported, statement, text)
    return any(
        _agrees(reported, names, theirs)
        for number in text.occurrences(reported.number.value)
        for theirs in attributions(_sentence(text, number)[0])
        if abs(theirs.number.value) == abs(reported.number.value)
    )


def _agrees(reported: Attribution, names: frozenset[str], theirs: Attribution) -> bool:
    """True if a passage has the names and direction, and no word of another number."""
    units = {reported.number.unit, theirs.number.unit}
    is_of_unit = len(units) == 1 or not (reported.number.own_unit and theirs.number.own_unit)
    is_negated = _is_negated(reported) != _is_negated(theirs)
    if not is_of_unit or is_negated or _is_level_made_difference(reported, theirs):
        return False
    if (theirs.is_listed and not reported.is_listed) or reported.is_first != theirs.is_first:
        return False
    passage_words, foreign = terms(theirs.text), terms(theirs.others) - terms(theirs.text)
    if terms(reported.text) & foreign or not all(_is_among(name, passage_words) for name in names):
        return False
    if theirs.number.value < 0 < reported.number.value and not _DOWN.search(reported.clause):
        return False
    subjects = terms(reported.subject), terms(theirs.subject)
    if all(subjects) and terms(reported.text) & subjects[1] and not subjects[0] & subjects[1]:
        return False  # mirrored
    return not any(_is_opposite(reported.text, theirs.text, group) for group in _OPPOSITES)


def _is_level_made_difference(reported: Attribution, theirs: Attribution) -> bool:
    """True if a statement turns "keeps 96 %" into "by 96 %"."""
    is_level = _LEVEL.search(theirs.clause) and not _DIFFERENCE.search(theirs.clause)
    return bool(is_level) and _is_difference(reported)


def _is_negated(reported: Attribution) -> bool:
    return bool(_NEGATED.search(reported.clause))


def _is_among(name: str, text_words: frozenset[str]) -> bool:
    """True if a text has a name, or a plain word in another form."""
    beginning = name[: max(4, len(name) - 3)]
    return name in text_words or (
        name.isalpha() and any(word.startswith(beginning) for word in text_words)
    )


def _is_opposite(ours: str, theirs: str, group: tuple[re.Pattern[str], re.Pattern[str]]) -> bool:
    """True if each text has words from only one side of a pair, and not the same side."""
    mine, others = ([bool(side.search(text)) for side in group] for text in (ours, theirs))
    return sum(mine) == sum(others) == 1 and mine != others


def _names(reported: Attribution, statement: Folded, text: PaperText) -> frozenset[str]:
    """Return the names that a statement has before a number, and its subject's words."""
    start = statement.text.rfind(reported.subject.strip(), 0, reported.number.start)
    cased = statement.cased[max(start, 0) : reported.number.start]
    first = re.match(r"\W*(\w+)", statement.cased)
    names: set[str] = set()
    for token in re.findall(r"(?<![\w.])[^\W\d_][\w.+:/-]*\w", cased):
        is_first = first is not None and token == first[1] and token[1:].islower()
        is_plain = is_first and re.search(rf"(?<!\w){re.escape(token.lower())}", text.folded.cased)
        if any(c.isupper() or c.isdigit() for c in token) and not is_plain:
            names |= terms(token.lower())
    return frozenset(names) or terms(reported.subject)


def _is_reversed(reported: Attribution, place: Number, text: PaperText) -> bool:
    """True if a passage gives the statement's number to another, or reverses the comparison."""
    is_gain = (
        reported.number.value > 0 and _UP.search(reported.text) and not _DOWN.search(reported.text)
    )
    if is_gain and place.value < 0:  # 9 % for −9 %
        return True
    value = abs(reported.number.value)
    readings = attributions(_sentence(text, place)[0])
    here = [theirs for theirs in readings if abs(theirs.number.value) == value]
    return bool(here) and all(_says_reverse(reported, theirs) for theirs in here)


def _says_reverse(reported: Attribution, theirs: Attribution) -> bool:
    mine, its, others = terms(reported.text), terms(theirs.text), terms(theirs.others)
    if theirs.is_listed:
        return False
    if (reported.is_first != theirs.is_first and mine & its) or _is_level_made_difference(
        reported, theirs
    ):
        return True
    subject = terms(reported.subject)
    metric = quantities(reported.clause)
    is_other_subject = subject and terms(theirs.subject) and subject <= others - its
    is_other_metric = metric and quantities(theirs.clause) and metric <= others - its
    if is_other_subject or is_other_metric:
        return True
    if terms(theirs.subject) and subject & its and not subject & terms(theirs.subject):
        return False  # "Wren wins by 2" of "Heron loses to Wren by 2"
    is_negated = _is_negated(reported) != _is_negated(theirs)
    is_opposite = any(_is_opposite(reported.clause, theirs.clause, group) for group in _OPPOSITES)
    return bool(mine & its) and (is_opposite or (is_negated and len(mine & its) > 1))


def _span(text: PaperText, number: Number) -> tuple[int, int]:
    """Return the sentence around a number, at most REACH characters each way."""
    folded = text.folded.text
    low, high = max(0, number.start - REACH), min(len(folded), number.end + REACH)
    ends = [m.end() for m in _END.finditer(folded, low, number.start)]
    last = _END.search(folded, number.end, high)
    start = max(ends[-1] if ends else low, min(text.body_at(number.start), number.start))
    while start < number.start and folded[start] == " ":
        start += 1
    return start, (last.end() if last else high)


def _sentence(text: PaperText, number: Number) -> tuple[Folded, tuple[int, int]]:
    span = start, end = _span(text, number)
    folded = text.folded
    part = Folded(folded.text[start:end], folded.cased[start:end], folded.places[start:end])
    return part, span


def _shown(text: PaperText, span: tuple[int, int]) -> str:
    """Return the sentence as the paper writes it."""
    start, end = text.folded.place(span[0], max(span[0] + 1, span[1]))
    return " ".join(text.original[start:end].split())[:MAX_QUOTED]
