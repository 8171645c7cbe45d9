"""Similar papers: the nearest of the whole index by TF-IDF, ordered by meaning too."""

from django.db.models import Q

from webapp.learning import postings, vectors
from webapp.learning.tfidf import dot, vector, weights
from webapp.papers.models import Paper

CANDIDATES = 100  # read and compared
LEAST = 0.1  # cosine of TF-IDF below which two papers share only common words
MEANING = 1.0  # what an encoder's cosine counts beside that of TF-IDF


def similar(paper: Paper, limit: int = 5) -> list[tuple[float, Paper]]:
    """At most `limit` papers like `paper`, the most similar first, each with its cosine (0 to 1).

    Where an encoder is there, its cosines count as well in the order; a paper without a vector
    counts as the average of the others. Of papers that are as similar the later comes first.
    """
    mine = vector(paper.title, paper.abstract)
    indexed = postings.nearest(mine, CANDIDATES + 1)
    # One query for both: SQLite and PostgreSQL look each of them up by the primary key.
    latest = postings.waiting(CANDIDATES + 1 - len(indexed))
    candidates = Paper.objects.filter(Q(pk__in=indexed) | Q(pk__in=latest)).exclude(pk=paper.pk)
    cosines: dict[int, float] = {}
    for key, title, abstract in candidates.values_list("pk", "title", "abstract"):
        theirs, length = weights(title, abstract)  # dividing each weight would take longer
        cosine = dot(mine, theirs) / length
        if cosine >= LEAST:
            cosines[key] = cosine
    meant = _cosines_by_encoder(paper, list(cosines))
    best = sorted(cosines, key=lambda key: (-cosines[key] - MEANING * meant.get(key, 0), -key))
    papers = Paper.objects.in_bulk(best[:limit])
    return [(cosines[key], papers[key]) for key in best[:limit] if key in papers]


def keys_like(paper: Paper, limit: int) -> list[int]:
    """Return the keys of at most `limit` papers like `paper`, the most similar first."""
    return [other.pk for _, other in similar(paper, limit)]


def _cosines_by_encoder(paper: Paper, keys: list[int]) -> dict[int, float]:
    """Return papers' cosines with `paper` by the encoder; {} if it has no vector itself."""
    paper_vectors = vectors.of_papers([*keys, paper.pk])
    mine = paper_vectors.pop(paper.pk, None)
    cosines = vectors.cosines_with(mine, paper_vectors) if mine else {}
    average = sum(cosines.values()) / len(cosines) if cosines else 0.0
    return {key: cosines.get(key, average) for key in keys}
