"""Exact search over the vectors of all papers, in memory.

100,000 vectors of int8 are 38 MB, and comparing a question with all of them takes milliseconds: an
index in the database would need an extension on SQLite and another on PostgreSQL.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

from webapp.core.revisions import Token, revision
from webapp.learning import encoder
from webapp.learning.models import PaperVector
from webapp.papers.models import Paper

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

LARGEST = 200_000  # papers, the latest
BLOCK = 1 << 13  # vectors that are compared at once
COMPLETE = 0.99  # share of papers with a vector, from which a search uses them
SAMPLED = 500  # papers of which the cosine of any two is estimated


@dataclass(frozen=True)
class VectorIndex:
    """Vectors of papers: int8 [papers, width], with their keys and lengths.

    `least` is the cosine from which a paper is near a question: half a standard deviation above
    the mean of two papers'. Encoders differ in what cosine two unrelated texts have.
    """

    keys: NDArray[np.int64]
    values: NDArray[np.int8]
    lengths: NDArray[np.float32]
    least: float

    def nearest(self, vector: bytes, limit: int) -> list[int]:
        """Return the keys of the papers near a vector, at most `limit`, the nearest first."""
        import numpy as np  # noqa: PLC0415 - 0.3 s

        mine = np.frombuffer(vector, np.int8).astype(np.float32)
        if not len(self.keys) or len(mine) != self.values.shape[1]:
            return []
        cosines = np.empty(len(self.keys), np.float32)
        for start in range(0, len(self.keys), BLOCK):
            block = slice(start, start + BLOCK)
            cosines[block] = self.values[block].astype(np.float32) @ mine
        cosines /= self.lengths * max(1.0, float(np.linalg.norm(mine)))
        top = np.argpartition(-cosines, min(limit, len(cosines)) - 1)[:limit]
        top = top[cosines[top] >= self.least]
        keys: list[int] = self.keys[top[np.argsort(-cosines[top], kind="stable")]].tolist()
        return keys


def progress() -> tuple[int, int] | None:
    """Return how many papers have a vector, of how many; None without an encoder."""
    if not (name := encoder.name()):
        return None
    papers = Paper.objects.count()
    return PaperVector.objects.filter(encoder=name).count(), min(papers, LARGEST)


def nearest_to(question: str, limit: int) -> list[int] | None:
    """Return the papers nearest to a question; None if there is no encoder or half an index."""
    if not (name := encoder.name()):
        return None
    index = _index(name, revision("vectors", "papers"))
    if index is None or not (vector := encoder.encode_question(question)):
        return None
    return index.nearest(vector, limit)


@lru_cache(maxsize=1)
def _index(name: str, _revision: Token) -> VectorIndex | None:
    """Read the index; None while too many papers lack a vector."""
    import numpy as np  # noqa: PLC0415 - 0.3 s

    vectors = PaperVector.objects.filter(encoder=name)
    papers = min(Paper.objects.count(), LARGEST)
    if not papers or vectors.count() < COMPLETE * papers:
        return None
    rows = list(vectors.order_by("-paper_id").values_list("paper_id", "values")[:LARGEST])
    width = len(rows[0][1])
    rows = [(key, values) for key, values in rows if len(values) == width]
    values = np.frombuffer(b"".join(bytes(v) for _, v in rows), np.int8).reshape(-1, width)
    squares = np.einsum("ij,ij->i", values, values, dtype=np.int32)
    lengths = np.sqrt(np.maximum(squares, 1)).astype(np.float32)
    some = np.random.default_rng(0).permutation(len(rows))[:SAMPLED]
    unit = values[some].astype(np.float32) / lengths[some, None]
    others = (unit @ unit.T)[np.triu_indices(len(some), 1)]
    least = float(others.mean() + others.std() / 2) if len(others) else 0.0
    return VectorIndex(np.array([key for key, _ in rows], np.int64), values, lengths, least)
