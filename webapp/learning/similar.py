"""Similar papers: the nearest of the whole index by TF-IDF and, where there is one, by an encoder.

The constants were chosen on 26 papers of June 2025, of whose neighbours 166 were graded by hand.
Most of the unrelated ones shared one rare word of the titles, so a title counts for less here.
"""

from django.db.models import Q

from webapp.learning import postings, vectors
from webapp.learning.tfidf import dot, vector, weights
from webapp.papers.models import Paper

CANDIDATES = 100  # read and compared
TITLE_COUNTS = 2  # a word of the title weighs as much as two of the abstract
MEANING = 0.5  # weight of an encoder's cosine beside that of TF-IDF
LEAST, LEAST_WITH_MEANING = 0.19, 0.45  # similarity below which a paper is not shown


def similar(paper: Paper, limit: int = 5) -> list[Paper]:
    """Return at most `limit` papers like `paper`, the most similar first; of equals the later.

    Where `paper` has an encoder's vector, its cosines count too; another paper without a vector
    counts as the average of the others.
    """
    indexed = postings.nearest(vector(paper.title, paper.abstract), CANDIDATES + 1)
    # One query for both: SQLite and PostgreSQL look each of them up by the primary key.
    latest = postings.waiting(CANDIDATES + 1 - len(indexed))
    candidates = Paper.objects.filter(Q(pk__in=indexed) | Q(pk__in=latest)).exclude(pk=paper.pk)
    mine, my_length = weights(paper.title, paper.abstract, TITLE_COUNTS)
    similarities: dict[int, float] = {}
    for key, title, abstract in candidates.values_list("pk", "title", "abstract"):
        theirs, length = weights(title, abstract, TITLE_COUNTS)
        similarities[key] = dot(mine, theirs) / (my_length * length)
    least = LEAST
    if meanings := _cosines_by_encoder(paper, list(similarities)):
        least = LEAST_WITH_MEANING
        similarities = {key: s + MEANING * meanings[key] for key, s in similarities.items()}
    close = [key for key, similarity in similarities.items() if similarity >= least]
    best = sorted(close, key=lambda key: (-similarities[key], -key))[:limit]
    papers = Paper.objects.in_bulk(best)
    return [papers[key] for key in best if key in papers]


def keys_like(paper: Paper, limit: int) -> list[int]:
    """Return the keys of at most `limit` papers like `paper`, the most similar first."""
    return [other.pk for other in similar(paper, limit)]


def _cosines_by_encoder(paper: Paper, keys: list[int]) -> dict[int, float]:
    """Return papers' cosines with `paper` by the encoder; {} if it or all of them lack a vector."""
    paper_vectors = vectors.stored_vectors([*keys, paper.pk])
    mine = paper_vectors.pop(paper.pk, None)
    cosines = vectors.cosines_with(mine, paper_vectors) if mine else {}
    if not cosines:
        return {}
    average = sum(cosines.values()) / len(cosines)
    return {key: cosines.get(key, average) for key in keys}
