"""The order of search results: the title above the abstract, whole phrases above words.

Computed from the papers' own texts, so that it is the same on every database. Where all candidates
have every term, its rarity cannot tell them apart; its places and density can. Where they have some
of the words, BM25 weighs these by their rarity.
"""

import re
from collections.abc import Iterable, Sequence
from datetime import date

from webapp.papers.models import Paper
from webapp.papers.search.query import QueryTerm, words_of
from webapp.papers.search.words import IDLE, other_spelling, rarity, stem

IN_TITLE, IN_AUTHORS, IN_ABSTRACT = 3.0, 2.0, 1.0
TITLE_SHARE = 3.0  # for a title that is nothing but the query
TITLE_PHRASE, ABSTRACT_PHRASE = 3.0, 1.0
SATURATION = 1.5  # mentions in the abstract after which more count little (BM25's k1)
RECENT, HALF_LIFE = 0.5, 365.0  # points for a paper of today; days until half are left
K1, B = 0.9, 0.4  # of BM25: how soon mentions saturate, how much a long text is discounted
TITLE_COUNTS = 2  # a word of the title counts as that many of the abstract
USUAL_LENGTH = 200.0  # words of a title and an abstract
ADJACENT = 0.2  # of two words' rarity where they stand beside each other as in the query

Text = tuple[int, str, str]  # a paper's key, title, abstract


def by_relevance(papers: Iterable[Paper], terms: Sequence[QueryTerm], today: date) -> list[Paper]:
    """The papers, the most relevant first; ties by day announced, then by identifier."""
    included = [term for term in terms if not term.exclude and term.column != "categories"]
    sought = [
        (term, list(dict.fromkeys(pattern(words, prefix=begun) for words, begun in term.ways())))
        for term in included
    ]
    phrase = _phrase(included)

    def rank(paper: Paper) -> tuple[float, int, str]:
        points = _points(paper, sought, phrase) + _recency(paper, today)
        return -points, -(paper.announced_on or date.min).toordinal(), paper.arxiv_id

    return sorted(papers, key=rank)


def _points(
    paper: Paper,
    sought: Sequence[tuple[QueryTerm, Sequence[re.Pattern[str]]]],
    phrase: re.Pattern[str] | None,
) -> float:
    """The points of a paper for a query's terms, and for all of them as one phrase."""
    names = " ".join(paper.author_names)
    fields = {"title": paper.title, "abstract": paper.abstract, "authors": names}
    texts = {name: line(words_of(text)) for name, text in fields.items()}
    points = covered = 0.0
    for term, patterns in sought:
        mentions = {
            name: sum(len(word_pattern.findall(text)) for word_pattern in patterns)
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


def by_rare_words(papers: Iterable[Text], words: Sequence[str]) -> list[int]:
    """The papers' keys by BM25 (Robertson and Zaragoza, "The Probabilistic Relevance Framework",
    2009, section 3.6: a title and an abstract as weighted fields), ties the later key first.

    `words` are folded, in the query's order: two that are neighbours there count for more where
    they are neighbours in a text.
    """
    stems = {stem(word): stem(other_spelling(word)) for word in words}
    rarities = [rarity(word) for word in {stem(word): word for word in words}.values()]
    # Longer stems first: an alternative that is the beginning of another would hide it.
    ways = [
        rf"((?:{re.escape(way)}|{re.escape(other)})\w{{0,6}}\b)" for way, other in stems.items()
    ]
    order = sorted(range(len(ways)), key=lambda n: -len(ways[n]))
    seek = re.compile(f" (?:{'|'.join(ways[n] for n in order)})")
    numbers = [order[group] for group in range(len(order))]
    neighbours = {(n, n + 1) for n in range(len(stems) - 1)}

    def find_words(text: str) -> list[tuple[int, int, int]]:
        """Return each word that is in a text: its number, start and end."""
        return [
            (numbers[(match.lastindex or 1) - 1], match.start(), match.end())
            for match in seek.finditer(text)
        ]

    def points(title: str, abstract: str) -> float:
        counts = [0.0] * len(stems)
        together: set[tuple[int, int]] = set()
        texts = line(words_of(title)), line(words_of(abstract))
        for text, count in zip(texts, (TITLE_COUNTS, 1), strict=True):
            before, end = -1, -1
            for word, start, until in find_words(text):
                counts[word] += count
                if start == end:
                    together.add((before, word))
                before, end = word, until
        length = texts[0].count(" ") * TITLE_COUNTS + texts[1].count(" ")
        usual = K1 * (1 - B + B * length / USUAL_LENGTH)
        score = sum(
            weight * count * (K1 + 1) / (count + usual)
            for weight, count in zip(rarities, counts, strict=True)
        )
        near = together & neighbours
        return score + ADJACENT * sum(rarities[first] + rarities[two] for first, two in near)

    scored = [(points(title, abstract), key) for key, title, abstract in papers]
    return [key for _, key in sorted(scored, reverse=True)]


def line(words: Sequence[str]) -> str:
    """Folded words as `pattern` expects them: each after a blank."""
    return " " + " ".join(words)


def pattern(words: Sequence[str], *, prefix: bool) -> re.Pattern[str]:
    """A regular expression for consecutive words in a `line`, with their inflections.

    It starts with the blank before them, which is found eight times as fast as a word boundary.
    """
    *first, last = words
    stems = [rf"{re.escape(stem(word))}\w{{0,6}}" for word in first]
    ending = r"\w*" if prefix else r"\w{0,6}"
    stems.append(re.escape(last if prefix else stem(last)) + ending)
    return re.compile(" " + " ".join(stems) + r"\b")


def _phrase(terms: Sequence[QueryTerm]) -> re.Pattern[str] | None:
    """All words of the query as one phrase; None for a single word, or where some may be absent."""
    if any(term.others for term in terms):
        return None
    words = [word for term in terms if term.column in {"", "title"} for word in term.words]
    return pattern(words, prefix=bool(terms) and terms[-1].prefix) if len(words) > 1 else None


def weight(term: QueryTerm) -> float:
    """The weight of a term: little if it has only stop words."""
    return 0.1 if all(IDLE.issuperset(words) for words, _ in term.ways()) else 1.0


def _recency(paper: Paper, today: date) -> float:
    if paper.announced_on is None:
        return 0.0
    age = max((today - paper.announced_on).days, 0)
    return RECENT * float(0.5 ** (age / HALF_LIFE))
