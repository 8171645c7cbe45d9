"""The order of search results: the title above the abstract, whole phrases above words.

Computed from the papers' own texts, so that it is the same on every database. All candidates have
every term, so its rarity cannot tell them apart; its places and density can.
"""

import re
from collections.abc import Iterable, Sequence
from datetime import date

from webapp.papers.models import Paper
from webapp.papers.search.query import Term, words_of

IN_TITLE, IN_AUTHORS, IN_ABSTRACT = 3.0, 2.0, 1.0
TITLE_SHARE = 3.0  # for a title that is nothing but the query
TITLE_PHRASE, ABSTRACT_PHRASE = 3.0, 1.0
SATURATION = 1.5  # mentions in the abstract after which more count little (BM25's k1)
RECENT, HALF_LIFE = 0.5, 365.0  # points for a paper of today; days until half are left
STOP_WORDS = frozenset(
    {"a", "an", "and", "are", "as", "at", "by", "for", "from", "in", "is", "of", "on"}
    | {"or", "the", "to", "towards", "via", "with"}
)
_ENDINGS = re.compile(r"(?:ization|isation|ations?|ings?|ized?|ised?|ers?|ed|es|ly|s|e|y)$")


def by_relevance(papers: Iterable[Paper], terms: Sequence[Term], today: date) -> list[Paper]:
    """The papers, the most relevant first; ties by day announced, then by identifier."""
    wanted = [term for term in terms if not term.exclude and term.column != "categories"]
    sought = [
        (term, [pattern(words, prefix=term.prefix) for words in term.spellings()])
        for term in wanted
    ]
    phrase = _phrase(wanted)

    def rank(paper: Paper) -> tuple[float, int, str]:
        points = _points(paper, sought, phrase) + _recency(paper, today)
        return -points, -(paper.announced_on or date.min).toordinal(), paper.arxiv_id

    return sorted(papers, key=rank)


def _points(
    paper: Paper,
    sought: Sequence[tuple[Term, Sequence[re.Pattern[str]]]],
    phrase: re.Pattern[str] | None,
) -> float:
    """The points of a paper for a query's terms, and for all of them as one phrase."""
    names = " ".join(paper.author_names)
    fields = {"title": paper.title, "abstract": paper.abstract, "authors": names}
    texts = {name: line(words_of(text)) for name, text in fields.items()}
    points = covered = 0.0
    for term, patterns in sought:
        mentions = {
            name: sum(len(one.findall(text)) for one in patterns)
            if term.column in {"", name}
            else 0
            for name, text in texts.items()
        }
        frequency = mentions["abstract"]
        points += weight(term) * IN_TITLE * (mentions["title"] > 0)
        points += weight(term) * IN_AUTHORS * (mentions["authors"] > 0)
        points += weight(term) * IN_ABSTRACT * frequency / (frequency + SATURATION)
        covered += len(term.words) * (mentions["title"] > 0)
    points += TITLE_SHARE * min(covered / max(texts["title"].count(" "), 1), 1.0)
    if phrase:
        points += TITLE_PHRASE * (phrase.search(texts["title"]) is not None)
        points += ABSTRACT_PHRASE * (phrase.search(texts["abstract"]) is not None)
    return points


def line(words: Sequence[str]) -> str:
    """Folded words as `pattern` expects them: each after a blank."""
    return " " + " ".join(words)


def pattern(words: Sequence[str], *, prefix: bool) -> re.Pattern[str]:
    """A regular expression for consecutive words in a `line`, with their inflections.

    It starts with the blank before them, which is found eight times as fast as a word boundary.
    """
    *first, last = words
    stems = [rf"{re.escape(_stem(word))}\w{{0,6}}" for word in first]
    ending = r"\w*" if prefix else r"\w{0,6}"
    stems.append(re.escape(last if prefix else _stem(last)) + ending)
    return re.compile(" " + " ".join(stems) + r"\b")


def _phrase(terms: Sequence[Term]) -> re.Pattern[str] | None:
    """All words of the query as one phrase; None for a single word."""
    words = [word for term in terms if term.column in {"", "title"} for word in term.words]
    return pattern(words, prefix=bool(terms) and terms[-1].prefix) if len(words) > 1 else None


def _stem(word: str) -> str:
    """The word without its ending, if three letters remain."""
    stem = _ENDINGS.sub("", word)
    return stem if len(stem) >= 3 else word


def weight(term: Term) -> float:
    """The weight of a term: little if it has only stop words."""
    return 0.1 if all(word in STOP_WORDS for word in term.words) else 1.0


def _recency(paper: Paper, today: date) -> float:
    if paper.announced_on is None:
        return 0.0
    age = max((today - paper.announced_on).days, 0)
    return RECENT * float(0.5 ** (age / HALF_LIFE))
