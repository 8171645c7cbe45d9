"""Quality of a valid answer: without it cards, mail and feeds do not show it.

A small model fills the form with the form's own words, with the abstract, with one line over and
over, with addresses, or in another language than it was asked for. Each check gives its reason,
which the paper's page shows together with the answer.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from django.utils.translation import gettext_noop as _

from webapp.claims.numbers import fold

from .models import Claim
from .schema import PaperSummary

LEAST_QUOTES = 0.5  # the share of an answer's quotes that must stand in the paper
QUOTES_JUDGED = 3  # claims from which on their share says something
LEAST_WORDS = 25  # of a whole summary
LEAST_GIST = 5  # words
COPIED = 0.8  # the share of the prose that is taken over from one place, from which on it is copied
SHINGLE = 6  # words that two texts have in common by no chance
REPEATED = 0.5  # the share of lines, or of runs of words, that repeat others
_PROMPTS = Path(__file__).parent / "prompts"
_WORD = re.compile(r"[^\W_\u3400-\u9fff]+|[\u3400-\u9fff]")
_CHINESE = re.compile(r"[\u3400-\u9fff]")
_ADDRESS = re.compile(r"(?:https?://|www\.|doi\.org|10\.\d{4,}/|arxiv\.org)\S*|\S+@\S+\.\w+")
_FORM = re.compile(
    r"^(?:(?:the )?(?:data sets?|setup|metrics?|baselines?|problem|method|advantages?|findings?"
    r"|limitations?|future work|key numbers?|ablations?|gist|title|quote|value|unit|section|claims?"
    r"|paper|text|summary)s?:?\s*)?"
    r"(?:type|string|text|array|object|null|none|n/?a|unknown|item|example|todo|not (?:stated|given"
    r"|specified|mentioned)|one sentence|\.{3}|-|\w)?\.?\s*\d*$",
    re.IGNORECASE,
)


def useless(answer: PaperSummary, claims: Sequence[Claim], abstract: str, language: str) -> str:
    """Return the reason why an answer is of no use to a reader, or ""."""
    lines = list(_lines(answer))
    content = [line for line in lines if not _FORM.match(line.strip())]
    prose = " ".join(content)
    gist = _ADDRESS.sub("", answer.gist).strip()
    missing = sum("quote" in claim.reason for claim in claims)
    instructions = " ".join(path.read_text("utf-8") for path in sorted(_PROMPTS.glob("*.txt")))
    is_chinese = len(_CHINESE.findall(prose)) * 5 > len(prose)
    faults = {
        _("its first sentence is a link"): gist != answer.gist and len(_words(gist)) < LEAST_GIST,
        _("its first sentence says nothing"): len(_words(gist)) < LEAST_GIST or _FORM.match(gist),
        _("it is mostly links"): 2 * sum(map(len, _ADDRESS.findall(prose))) > len(prose),
        _("it repeats the form instead of filling it in"): len(content) * 2 < len(lines),
        _("it has only a few words"): len(_words(prose)) < LEAST_WORDS,
        _("it repeats itself"): _is_repetitive(lines),
        _("it repeats the question"): _copied(content, instructions) >= REPEATED,
        _("its first sentence is copied from the abstract"): (
            len(_words(answer.gist)) > SHINGLE and _copied([answer.gist], abstract) >= COPIED
        ),
        _("it repeats the abstract"): len(content) > 2 and _copied(content, abstract) >= COPIED,
        _("it is not in the language that was asked for"): is_chinese != (language == "zh"),
        _("most of its quotes are not in the paper"): (
            len(claims) >= QUOTES_JUDGED and len(claims) - missing < LEAST_QUOTES * len(claims)
        ),
    }
    return next((reason for reason, is_so in faults.items() if is_so), "")


def shared_prose(answer: PaperSummary, others: Iterable[PaperSummary]) -> bool:
    """True if another paper's answer has the same gist, or half of the same lines."""
    lines = {fold(line) for line in _lines(answer) if len(_words(line)) >= LEAST_GIST}
    for other in others:
        theirs = {fold(line) for line in _lines(other)}
        if fold(answer.gist) == fold(other.gist):
            return True
        if len(lines) > 1 and len(lines & theirs) >= REPEATED * len(lines):
            return True
    return False


def _words(text: str) -> list[str]:
    return _WORD.findall(text)


def _lines(answer: PaperSummary) -> Iterator[str]:
    """The gist and every line under the headings."""
    yield answer.gist
    for part in (answer.contributions, answer.experiments, answer.results, answer.conclusions):
        for name in type(part).model_fields:
            if name != "tables":
                yield from getattr(part, name)


def _is_repetitive(lines: Sequence[str]) -> bool:
    """True if half of the lines, or of the word runs of one, are repeated."""
    counted = Counter(fold(line) for line in lines)
    repeated = sum(count - 1 for count in counted.values())
    if len(lines) > 3 and repeated >= REPEATED * len(lines):
        return True
    for line in lines:
        words = _words(fold(line))
        runs = [tuple(words[i : i + 3]) for i in range(len(words) - 2)]
        if len(runs) > 15 and len(set(runs)) < REPEATED * len(runs):
            return True
    return False


def _copied(lines: Sequence[str], source: str) -> float:
    """The share of the words of some lines that stand in runs of SHINGLE in a source."""
    there = _shingles(_words(fold(source)))
    copied = total = 0
    for line in lines:
        words = _words(fold(line))
        total += len(words)
        taken: set[int] = set()
        for i in range(len(words) - SHINGLE + 1):
            if tuple(words[i : i + SHINGLE]) in there:
                taken.update(range(i, i + SHINGLE))
        copied += len(taken)
    return copied / max(total, 1)


def _shingles(words: Sequence[str]) -> set[tuple[str, ...]]:
    return {tuple(words[i : i + SHINGLE]) for i in range(len(words) - SHINGLE + 1)}
