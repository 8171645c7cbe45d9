"""Similar papers: candidates from the search index, ordered by TF-IDF."""

from webapp.learning.tfidf import dot, vector, weights
from webapp.papers.models import Paper
from webapp.papers.search import index

WORDS = 6  # of the strongest, in whose pairs candidates are found
PHRASES = 4
CANDIDATES = 120  # read and compared
LEAST = 0.1  # cosine below which two papers share only common words


def similar(paper: Paper, limit: int = 5) -> list[tuple[float, Paper]]:
    """At most `limit` papers like `paper`, the most similar first, each with its cosine (0 to 1).

    Candidates are the latest papers that share two of its strongest words, or one of its strongest
    pairs of adjacent words. Two queries.
    """
    mine = vector(paper.title, paper.abstract)
    strongest = sorted(mine, key=lambda term: (-mine[term], term))
    words = [term for term in strongest if " " not in term][:WORDS]
    phrases = [term for term in strongest if " " in term][:PHRASES]
    keys = index.sharing(words, phrases, CANDIDATES)
    found = Paper.objects.filter(pk__in=keys).exclude(pk=paper.pk).defer("authors", "categories")
    alike = []
    for one in found:
        theirs, length = weights(one.title, one.abstract)  # dividing each weight would take longer
        alike.append((dot(mine, theirs) / length, one))
    ordered = sorted(alike, key=lambda pair: (-pair[0], -pair[1].pk))
    return [pair for pair in ordered if pair[0] >= LEAST][:limit]
