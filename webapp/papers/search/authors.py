"""Papers of an author whose name is compared: `author:"Jane Doe"`, `author:Mueller` of Müller.

The index finds papers that have the surname and the beginning of the first name among all their
authors' names; each author's name is then compared as everywhere (`papers.names`).
"""

from collections.abc import Sequence
from dataclasses import replace

from webapp.papers.models import Paper
from webapp.papers.names import parse_name, spellings, without_apostrophes, wrote
from webapp.papers.search import index
from webapp.papers.search.query import Query, QueryTerm, words_of

COMPARED = 2_000  # papers, the latest
BEGINNING = 3  # letters of a first name by which papers are looked up


def papers_by(term: QueryTerm) -> set[int]:
    """Return the keys of the papers that an author wrote."""
    name = parse_name(term.name)
    surnames = _spellings(name.family or name.literal)
    keys = set[int]()
    if " " not in term.name:  # one word, of any author's name; a surname in its other spellings too
        plain = replace(term, exclude=False, others=(), name="")
        keys.update(index.matches(Query((plain,)), COMPARED))
        surnames = surnames[1:] if term.name else []
    if not surnames:
        return keys
    terms = [_any_of([QueryTerm(words, "authors") for words in surnames])]
    firsts = [words[0] for words in _spellings(name.given)]
    if firsts and len(firsts[0]) > 1:
        begun = [QueryTerm((first[:BEGINNING],), "authors", prefix=True) for first in firsts]
        terms.append(_any_of([*begun, QueryTerm((firsts[0][0],), "authors")]))
    held = index.matches(Query(tuple(terms)), COMPARED)
    papers = Paper.objects.filter(pk__in=held).only("authors")
    return keys | {paper.pk for paper in papers if wrote(term.name, paper.author_names)}


def _any_of(terms: Sequence[QueryTerm]) -> QueryTerm:
    return replace(terms[0], others=tuple(terms[1:]))


def _spellings(text: str) -> list[tuple[str, ...]]:
    """The words of a name's part in each of its spellings, in the index's form."""
    words = (tuple(words_of(without_apostrophes(name))) for name in spellings(text))
    return [each for each in dict.fromkeys(words) if each]
