"""Vectors of papers by the numbers of their terms, as numpy multiplies them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cache, lru_cache
from hashlib import sha256
from typing import TYPE_CHECKING

from webapp.learning.tfidf import Vector, vector, vocabulary

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]
    Numbers = NDArray[np.int32]
    Flags = NDArray[np.bool_]
    Numbered = tuple[Numbers, Floats]  # the numbers of terms, and their values


def paper_vector(title: str, abstract: str) -> Vector:
    """A paper's vector."""
    numbers, values = numbered_vector(title, abstract)
    return dict(zip(terms_of(numbers), values.tolist(), strict=True))


@lru_cache(maxsize=1 << 14)
def numbered_vector(title: str, abstract: str) -> Numbered:
    """The numbers of its terms, and their values.

    Many readers have the same papers, and a preview those of some days: they are kept, in a tenth
    of a dictionary's room.
    """
    return numbered(vector(title, abstract))


@cache
def _vocabulary() -> tuple[str, ...]:
    return tuple(vocabulary())


@cache
def term_numbers() -> dict[str, int]:
    """The number of each term of the vocabulary."""
    return {term: number for number, term in enumerate(_vocabulary())}


@cache
def vocabulary_hash() -> str:
    """Equal where the same terms have the same numbers."""
    return sha256("\n".join(_vocabulary()).encode()).hexdigest()[:16]


def terms_of(numbers: Numbers) -> list[str]:
    """The terms with these numbers."""
    return [_vocabulary()[number] for number in numbers.tolist()]


def named(values: Floats) -> dict[str, float]:
    """Values by the numbers of terms as a vector of terms."""
    return {_vocabulary()[number]: float(values[number]) for number in values.nonzero()[0].tolist()}


def numbered(values: Mapping[str, float]) -> Numbered:
    """Values of terms with the numbers of the terms; those of another vocabulary are left out."""
    import numpy as np  # noqa: PLC0415 - 0.3 s

    numbers = term_numbers()
    terms = [term for term in values if term in numbers]
    return (
        np.array([numbers[term] for term in terms], np.int32),
        np.array([values[term] for term in terms], float),
    )


class Vectors:
    """The vectors of many papers, multiplied by another all at once.

    `numbers` and `values` are those of all their terms; each paper has `counts` of them.
    """

    def __init__(self, numbers: Numbers, values: Floats, counts: Sequence[int]) -> None:
        import numpy as np  # noqa: PLC0415

        self._numbers, self._values, self._count = numbers, values, len(counts)
        self._rows = np.repeat(np.arange(len(counts)), np.array(counts, int))

    @classmethod
    def of(cls, texts: Iterable[tuple[str, str]]) -> Vectors:
        """Return the vectors of papers with these titles and abstracts."""
        return cls.of_numbered([numbered_vector(*text) for text in texts])

    @classmethod
    def of_numbered(cls, each: Sequence[Numbered]) -> Vectors:
        """Join the vectors of papers."""
        import numpy as np  # noqa: PLC0415

        numbers = [np.zeros(0, np.int32), *(numbers for numbers, _ in each)]
        values = [np.zeros(0), *(values for _, values in each)]
        counts = [len(numbers) for numbers, _ in each]
        return cls(np.concatenate(numbers), np.concatenate(values), counts)

    def products(self, numbers: Numbers, values: Floats) -> Floats:
        """The inner product of each paper with a vector."""
        import numpy as np  # noqa: PLC0415

        other = np.zeros(len(_vocabulary()))
        other[numbers] = values
        parts = other.take(self._numbers) * self._values
        return np.bincount(self._rows, parts, self._count).astype(float, copy=False)
