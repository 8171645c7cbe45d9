"""The words of a query, marked in a paper's own text."""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate

from webapp.papers import folding
from webapp.papers.cards import Card
from webapp.papers.folding import UNSPACED
from webapp.papers.models import Paper
from webapp.papers.search.query import SPELLED, QueryTerm
from webapp.papers.search.ranking import line, pattern, weight
from webapp.ui.markup import render

# As `query.words_of` splits folded texts.
_WORD = re.compile(rf"c\+\+|c#|[{UNSPACED}]|(?:(?![{UNSPACED}])[^\W_])+")


@dataclass(frozen=True)
class MarkedPaper(Card):
    """A paper in a list of results: sanitised HTML with `<mark>` around what matched."""

    paper: Paper
    title_html: str
    abstract_html: str


def marked(papers: Iterable[Paper], terms: Sequence[QueryTerm]) -> list[MarkedPaper]:
    """The papers in their order, with the words of `terms` marked in titles and abstracts."""
    word_patterns = [
        (number, term.column, pattern(words, prefix=begun))
        for number, term in enumerate(terms)
        if not term.exclude and term.column not in {"authors", "categories"} and weight(term) == 1
        for words, begun in term.ways()
    ]

    def html(text: str, column: str, *, links: bool) -> str:
        patterns = [
            (number, words) for number, where, words in word_patterns if where in {"", column}
        ]
        return render(text, list(_spans(text, patterns)), links=links)

    return [
        MarkedPaper(
            paper,
            html(paper.title, "title", links=False),
            html(paper.abstract, "abstract", links=True),
        )
        for paper in papers
    ]


def _spans(
    text: str, patterns: Iterable[tuple[int, re.Pattern[str]]]
) -> Iterator[tuple[int, int, int]]:
    """Yield the matches of patterns of folded words in `text`: (start, end, number)."""
    whole, places = folding.folded(text)
    tokens = [
        (places[match.start()], places[match.end() - 1] + 1, SPELLED.get(match[0], match[0]))
        for match in _WORD.finditer(whole)
    ]
    folded = line([word for *_, word in tokens])
    # The end of each word in the line, in which every word follows a blank.
    ends = list(accumulate((len(word) + 1 for *_, word in tokens)))
    for number, word_pattern in patterns:
        first = 0
        for match in word_pattern.finditer(folded):
            while ends[first] <= match.start():
                first += 1
            last = first
            while ends[last] < match.end():
                last += 1
            yield tokens[first][0], tokens[last][1], number
