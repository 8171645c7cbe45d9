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
_QUANTITIES = frozenset(
    [
        "accuracy",
        "rate",
        "error",
        "precision",
        "recall",
        "score",
        "success",
        "f1",
        "auc",
        "throughput",
        "latency",
        "memory",
    ]
)
_TOKEN = re.compile(r"[a-z][a-z0-9]*(?:[-.+@/][a-z0-9]+)*|\d+[a-z]+")
# What begins a part that says something of a number of its own.
_BORDER = re.compile(
    r"[,;:](?!\d)|(?<!\w)(?:and|but|while|whereas|which|that|where|when|if|after|before|because"
    r"|since|as well as)(?!\w)|[()]"
)
_ABBREVIATION = re.compile(r"\([a-z][a-z0-9@/+-]{0,11}\)")  # "mean absolute error (mae) of 0.12"
_COMPARED = re.compile(
    r"(?<!\w)(?:compared (?:to|with)|versus|vs\.?|against|than)\s+(?:\S+\s+){0,4}$"
)
_VERB = re.compile(
    r"(?<!\w)(?:achiev|reach|attain|obtain|yield|produc|keep|need|requir|report|record|deliver|"
    r"improv|increas|reduc|lower|rais|boost|decreas|cut|limit|score|generat|flag|fail|identif|"
    r"show|has|have|gets?|gains?|is|are|was|were|outperform|surpass|exceed|beat|takes?|runs?|falls?|fell|rises?|rose|drop|grow|grew)"
    r"(?:e[sd]?|s|d|ed|ing|ting)?(?!\w)"
)
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
    r"(?<!\w)(?:baselines?|sota|state-of-the-art|previous|prior|existing|conventional|vanilla|original)"
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
    part: frozenset[str] = frozenset()  # every word of the part that says it
    is_others: bool = False  # "compared to 87.2", "the previous best is 75"


def assignments(sentence: str, figures: tuple[Number, ...]) -> list[Assignment]:
    """What a folded sentence assigns to each of its numbers."""
    if "respectively" in sentence or "|" in sentence:
        return [Assignment() for _ in figures]
    inside = [match.span() for match in _ABBREVIATION.finditer(sentence)]
    inside += [(number.start, number.end) for number in figures]
    borders = [
        match
        for match in _BORDER.finditer(sentence)
        if not any(start <= match.start() < end for start, end in inside)
    ]
    return [_assignment(sentence, number, figures, borders) for number in figures]


def _assignment(
    sentence: str, number: Number, figures: tuple[Number, ...], borders: list[re.Match[str]]
) -> Assignment:
    before = [match for match in borders if match.end() <= number.start]
    behind = [match for match in borders if match.start() >= number.end]
    opening = before[-1] if before else None
    start = opening.end() if opening else 0
    if opening is not None and opening[0] == "(":  # "the baseline (30.6 %)" has its words before it
        start = before[-2].end() if len(before) > 1 else 0
    last = max((n.end for n in figures if start < n.end <= number.start), default=start)
    following = min((n.start for n in figures if n.start >= number.end), default=len(sentence))
    end = min(behind[0].start() if behind else len(sentence), following)
    head, tail = sentence[max(start, last) : number.start], sentence[number.end : end]
    if behind and behind[0][0] == "(" and not tail.strip(" %"):
        closing = behind[1].start() if len(behind) > 1 else len(sentence)
        inside = sentence[behind[0].end() : closing]
        if _OTHERS.search(inside):
            return Assignment(subject=words(inside), part=words(inside), is_others=True)
    roles: dict[str, frozenset[str]] = {}
    for role, part in (*_head(head), *_tail(tail)):
        roles[role] = roles.get(role, frozenset()) | words(part)
    is_others = bool(_COMPARED.search(head) or (roles["subject"] and _OTHERS.search(head)))
    return Assignment(**roles, part=words(f"{head} {tail}"), is_others=is_others)


def _head(head: str) -> Iterator[tuple[str, str]]:
    """The words before a number, each part with its role."""
    verb = _VERB.search(head)
    if verb is None:
        is_metric = _OF.search(head) or words(head) & _QUANTITIES
        yield "subject", "" if is_metric else _without_phrases(head)
        yield "metric", head if is_metric else ""
        return
    subject = _without_phrases(head[: verb.start()])
    yield "subject", "" if words(subject) & _QUANTITIES else subject
    phrase = re.split(r"(?<!\w)(?:by|from|to)(?!\w)", head[verb.end() :])[0]
    yield "baseline" if _BEATS.match(verb[0]) else "metric", phrase


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
        is_metric = match["word"] == "of" and tail[: match.start()].endswith("terms ")
        is_metric = is_metric or (match["word"] == "of" and bool(words(part) & _QUANTITIES))
        if role := "metric" if is_metric else _ROLES.get(match["word"]):
            yield role, part


def words(text: str) -> frozenset[str]:
    """The words of a folded text that tell one thing from another; quantities are among them."""
    found = set(_TOKEN.findall(text))
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
    if any(_is_sibling(word, sentence) for word in subject):
        return True
    return any(
        _is_another_s(claim.roles[role], getattr(here, name), getattr(other, name), here, other)
        for index, other in enumerate(theirs)
        if index != own
        for role, name in _COMPARED_ROLES
    )


_COMPARED_ROLES = (*zip(ROLES, ROLES, strict=True), ("setting", "share"))


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
    return any(other["stem"] == sized["stem"] for other in others)
