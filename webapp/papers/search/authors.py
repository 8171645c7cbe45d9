"""Papers of an author who is named with given names: `author:"Jane Doe"`.

The index finds papers that have the surname and the beginning of the first name among all their
authors' names; each author's name is then compared as everywhere (`papers.names`).
"""

from dataclasses import replace

from webapp.papers.models import Paper
from webapp.papers.names import parse_name, without_apostrophes, wrote
from webapp.papers.search import index
from webapp.papers.search.query import Query, QueryTerm, words_of

COMPARED = 2_000  # papers, the latest
BEGINNING = 3  # letters of a first name by which papers are looked up


def papers_by(term: QueryTerm) -> set[int]:
    """Return the keys of the papers that an author wrote."""
    if not term.name:
        return set(index.matches(Query((replace(term, exclude=False, others=()),)), COMPARED))
    name = parse_name(term.name)
    surname = _words(name.family or name.literal)
    if not surname:
        return set()
    terms = [QueryTerm(surname, "authors")]
    first = (*_words(name.given), "")[0]
    if len(first) > 1:
        begun = QueryTerm((first[:BEGINNING],), "authors", prefix=True)
        terms.append(replace(begun, others=(QueryTerm((first[0],), "authors"),)))
    keys = index.matches(Query(tuple(terms)), COMPARED)
    papers = Paper.objects.filter(pk__in=keys).only("authors")
    return {paper.pk for paper in papers if wrote(term.name, paper.author_names)}


def _words(text: str) -> tuple[str, ...]:
    return tuple(words_of(without_apostrophes(text)))
