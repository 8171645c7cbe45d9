"""To whom and to what a sentence assigns each of its numbers, as far as its form is plain.

"On MNIST, Heron reaches 57.9 % and the Wren baseline 30.6 %": the second part has a subject of its
own. "Heron reaches 57.9 % on MNIST and 30.6 % on ADE20K" has one subject for both, and a setting
for each. A claim contradicts a sentence only where its words are those of another number and this
number has others in the same role.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from webapp.claims.numbers import Number
from webapp.core.tables import table

_WORDS: dict[str, str] = table(__file__, "opposites.toml")
_COMMON = frozenset(f"{_WORDS['common']} {_WORDS['general']}".split())
_QUANTITIES = frozenset(_WORDS["measured"].split())
_TOKEN = re.compile(r"[a-z][a-z0-9]*(?:[-.+@/][a-z0-9]+)*|\d+[a-z]+")
# What begins a part that says something of a number of its own.
_BORDER = re.compile(
    r"[,;](?!\d)|:(?!\s*[-+]?\d)|(?<!\w)(?:and|but|while|whereas|which|that|where|when|if|after|before|because"
    r"|since|as well as)(?!\w)|[()]"
)
_ABBREVIATION = re.compile(
    r"(?<=[a-z] )\([a-z][a-z0-9@/+-]{0,11}\)"
)  # "mean absolute error (mae) of 0.12"
_COMPARED = re.compile(
    r"(?<!\w)(?:compared (?:to|with)|versus|vs\.?|against"
    r"|(?<!less )(?<!more )(?<!fewer )(?<!greater )than)\s+(?:\S+\s+){0,4}$"
)
_VERB = re.compile(
    r"(?<!\w)(?:achiev|reach|attain|obtain|yield|produc|keep|need|requir|report|record|deliver|"
    r"improv|increas|reduc|lower|rais|boost|decreas|cut|limit|score|generat|flag|fail|identif|"
    r"show|has|have|gets?|gains?|is|are|was|were|outperform|surpass|exceed|beat|takes?|runs?|"
    r"falls?|fell|rises?|rose|drop|grow|grew|set|sett)"
    r"(?:e[sd]?|s|d|ed|ing|ting)?(?!\w)"
)
_CHANGED = re.compile(r"(?:improv|increas|reduc|decreas|gain|drop|rise|loss|boost|lead)\w*\s*$")
_JOINT = re.compile(r"\s*(?:,|and|or|,\s*and)\s*")  # between the numbers of a list
_BEATS = re.compile(r"outperform|surpass|exceed|beat")
_SIZED = re.compile(
    r"(?P<stem>\w.{2,}?)(?:tiny|small|base|large|huge|xl|mini|nano|pro|lite|\d+(?:\.\d+)?[bmk])"
)
_OF = re.compile(r"(?<!\w)(?:of|at|by|to|from|with)\s+(?:\S+\s+){0,2}$")
_PREPOSITION = re.compile(
    r"(?<!\w)(?P<word>on|in|for|at|under|across|within|with|during|of|over|than|against|versus|vs"
    r"|compared (?:to|with)|by|to|from)(?!\w)"
)
_ROLES = {
    **dict.fromkeys(("on", "in", "for", "at", "under", "across", "within", "during"), "setting"),
    **dict.fromkeys(("over", "than", "against", "versus", "vs"), "baseline"),
    **dict.fromkeys(("compared to", "compared with"), "baseline"),
    "of": "share",
}
ROLES = ("subject", "metric", "setting", "baseline")
_OWN = re.compile(r"^(?:ours?|we|the (?:\w+ )?(?:method|model|approach|system|framework))\b")
_OTHERS = re.compile(
    r"(?<!\w)(?:baselines?|sota|state-?of-?the-?art|previous|prior|existing|conventional|vanilla|original)"
    r"(?!\w)"
)


@dataclass(frozen=True)
class Assignment:
    """The words that stand in each role beside one number of a sentence."""

    subject: frozenset[str] = frozenset()
    metric: frozenset[str] = frozenset()
    share: frozenset[str] = frozenset()  # what a share is of
    setting: frozenset[str] = frozenset()
    baseline: frozenset[str] = frozenset()
    aside: frozenset[str] = frozenset()  # in brackets behind it
    part: frozenset[str] = frozenset()  # every word of the part that says it
    is_others: bool = False  # "compared to 87.2", "the previous best is 75"
    is_before: bool = False  # "from 19.0 to 35.5"
    names: frozenset[str] = frozenset()  # of its member of a list, in turn
    of_others: frozenset[str] = frozenset()  # of the other members


def assignments(sentence: str, figures: tuple[Number, ...]) -> list[Assignment]:
    """What a folded sentence assigns to each of its numbers."""
    if "|" in sentence:
        return [Assignment() for _ in figures]
    inside = [match.span() for match in _ABBREVIATION.finditer(sentence)]
    inside += [(number.start, number.end) for number in figures]
    borders = [
        match
        for match in _BORDER.finditer(sentence)
        if not any(start <= match.start() < end for start, end in inside)
    ]
    single = [_assignment(sentence, number, figures, borders) for number in figures]
    for run in _runs(sentence, figures):
        first = single[run[0]]
        names = _named_in_turn(sentence, figures[run[0]], len(run))
        for place, index in enumerate(run):
            others = [name for other, name in enumerate(names) if other != place]
            own: frozenset[str] = names[place] if names else frozenset()
            single[index] = Assignment(
                metric=first.metric,
                part=own | first.metric | first.subject,
                names=own,
                of_others=frozenset[str]().union(*others) - own,
            )
    return single


def _runs(sentence: str, figures: tuple[Number, ...]) -> list[list[int]]:
    """The numbers that stand in one list: "15.9 and 11.4 %"."""
    runs: list[list[int]] = []
    for index, number in enumerate(figures):
        between = sentence[figures[index - 1].end : number.start] if index else "none"
        if _JOINT.fullmatch(between):
            runs[-1].append(index)
        else:
            runs.append([index])
    return [run for run in runs if len(run) > 1]


def _named_in_turn(sentence: str, first: Number, count: int) -> list[frozenset[str]]:
    """The names that a list of so many numbers belongs to in turn; [] where that is not said."""
    lists = [match[0] for match in _LIST.finditer(sentence) if not _DIGITS_ALONE.search(match[0])]
    named = [[words(part) for part in _ITEMS.split(text)] for text in lists]
    named = [names for names in named if len(names) == count and all(names)]
    is_said = "respectively" in sentence or count > 2
    return named[0] if is_said and len(named) == 1 else []


_ITEM = r"[a-z][\w.@/+()-]*(?: [a-z0-9][\w.@/+()-]*)?"
_LIST = re.compile(
    rf"(?<!\w){_ITEM}(?:, {_ITEM})*,? and [a-z][\w.@/+-]*|\((?:[a-z][\w@-]*, )+[a-z][\w@-]*\)"
)
_ITEMS = re.compile(r",? and |, ")
_DIGITS_ALONE = re.compile(r"(?<![\w.-])\d")


def _assignment(
    sentence: str, number: Number, figures: tuple[Number, ...], borders: list[re.Match[str]]
) -> Assignment:
    before = [match for match in borders if match.end() <= number.start]
    behind = [match for match in borders if match.start() >= number.end]
    opening = before[-1] if before else None
    start = opening.end() if opening else 0
    if opening is not None and opening[0] == "(":  # "the baseline (30.6 %)" has its words before it
        inside = sentence[opening.end() : number.start].strip()
        start = opening.end() if inside else before[-2].end() if len(before) > 1 else 0
    last = max((n.end for n in figures if start < n.end <= number.start), default=start)
    following = min((n.start for n in figures if n.start >= number.end), default=len(sentence))
    end = min(behind[0].start() if behind else len(sentence), following)
    head, tail = sentence[max(start, last) : number.start], sentence[number.end : end]
    aside = ""
    if behind and behind[0][0] == "(" and not tail.strip(" %"):
        closing = behind[1].start() if len(behind) > 1 else len(sentence)
        aside = sentence[behind[0].end() : closing]
        if _OTHERS.search(aside):
            return Assignment(subject=words(aside), part=words(aside), is_others=True)
    roles: dict[str, frozenset[str]] = {}
    for role, part in (*_head(head), *_tail(tail), ("aside", aside)):
        roles[role] = roles.get(role, frozenset()) | words(part)
    is_others = bool(_COMPARED.search(head) or _is_of_others(head))
    is_others = is_others or bool(
        re.search(r"(?:outperform|surpass|exceed|beat)\w*\s\S+'s\s$", head)
    )
    is_before = head.rstrip().endswith("from") and sentence[number.end :].lstrip().startswith(
        ("to", "(")
    )
    beside = words(f"{head} {tail} {aside}")
    return Assignment(**roles, part=beside, is_others=is_others, is_before=is_before)


def _is_of_others(head: str) -> bool:
    """Whether the words before a number make it another's: "the previous best is"."""
    verb = _VERB.search(head)
    return bool(_OTHERS.search(head[: verb.start()] if verb else _without_phrases(head)))


def _head(head: str) -> Iterator[tuple[str, str]]:
    """The words before a number, each part with its role."""
    verb = _VERB.search(head)
    if verb is None:
        is_metric = _OF.search(head) or words(head) & _QUANTITIES
        yield "subject", "" if is_metric else _without_phrases(head)
        yield "metric", head if is_metric else ""
        return
    subject = _without_phrases(head[: verb.start()])
    is_subject = not words(subject) & _QUANTITIES and not subject.strip().endswith("ing")
    yield "subject", subject if is_subject else ""
    phrase = re.split(r"(?<!\w)(?:by|from|to)(?!\w)", head[verb.end() :])[0]
    yield "baseline" if _BEATS.match(verb[0]) else "metric", _OTHERS.sub(" ", phrase)


def _without_phrases(text: str) -> str:
    """A subject without "with" before it or "on MNIST" behind it."""
    text = re.sub(r"^\s*with\s", "", text)
    match = _PREPOSITION.search(text)
    return text[: match.start()] if match else text


def _tail(tail: str) -> Iterator[tuple[str, str]]:
    """The words behind a number, each part with its role."""
    marks = list(_PREPOSITION.finditer(tail))
    ends = [*(match.start() for match in marks), len(tail)]
    yield "metric", tail[: ends[0]]
    for match, end in zip(marks, ends[1:], strict=True):
        part = tail[match.end() : end]
        if match["word"] == "in" and part.startswith(" terms"):
            continue
        rest = tail[: match.start()]
        is_metric = match["word"] == "of" and rest.endswith("terms ")
        is_metric = is_metric or (
            match["word"] in {"of", "in"}
            and (bool(words(part) & _QUANTITIES) or bool(_CHANGED.search(rest)))
        )
        if role := "metric" if is_metric else _ROLES.get(match["word"]):
            yield role, part


def words(text: str) -> frozenset[str]:
    """The words of a folded text that tell one thing from another; quantities are among them."""
    found = {re.sub(r"(?<=[a-z]{2}[a-rtv-z])s$", "", token) for token in _TOKEN.findall(text)}
    return frozenset(
        word for word in found if len(word) > 1 and (word in _QUANTITIES or word not in _COMMON)
    )


@dataclass(frozen=True)
class Claimed:
    """The words of a claim in each role, and its subject as it is written."""

    subject: str
    roles: dict[str, frozenset[str]]

    @property
    def is_own(self) -> bool:
        """Whether it is about the paper's own method without its name."""
        return bool(_OWN.search(self.subject))


def contradicts(claim: Claimed, own: int, theirs: list[Assignment], sentence: str) -> bool:
    """Whether a claim about the number at `own` has the words of another number in some role."""
    here, subject = theirs[own], claim.roles["subject"]
    if here.is_others and not _OTHERS.search(claim.subject) and not subject & here.part:
        return claim.is_own or (bool(subject) and subject <= words(sentence))
    if here.is_before and (claim.is_own or bool(subject & here.subject)):
        return not claim.roles["baseline"]
    in_turn = (claim.roles[role] for role in ROLES[:3])
    if any(told & here.of_others and not told & here.names for told in in_turn):
        return True
    if any(_is_sibling(word, sentence) for word in subject):
        return True
    if (
        any(subject & other.baseline and here.subject for other in theirs)
        and not subject & here.part
    ):
        return True
    return any(
        _is_another_s(claim.roles[role], getattr(here, name), getattr(other, name), here, other)
        for index, other in enumerate(theirs)
        if index != own
        for role, name in _COMPARED_ROLES
    )


_MORE_ROLES = (
    *(("setting", "share"), ("metric", "setting")),
    *((role, "aside") for role in ROLES[:3]),
)
_COMPARED_ROLES = (*zip(ROLES, ROLES, strict=True), *_MORE_ROLES)


def _is_another_s(
    claimed: frozenset[str],
    mine: frozenset[str],
    its: frozenset[str],
    here: Assignment,
    there: Assignment,
) -> bool:
    """Whether claimed words are in a role of another number alone, and this one has others."""
    alone = claimed & (its - here.part)
    return bool(alone) and bool(mine - there.part) and not claimed & (here.part - there.part)


def _is_sibling(name: str, sentence: str) -> bool:
    """Whether a sentence names another size than a name: "vit-tiny" for "vit-base"."""
    sized = _SIZED.fullmatch(name)
    if sized is None or name in sentence:
        return False
    others = filter(None, map(_SIZED.fullmatch, words(sentence)))
    return any(other["stem"].rstrip("-") == sized["stem"].rstrip("-") for other in others)
