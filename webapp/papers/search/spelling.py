"""Corrections of words that no paper contains: the most similar words in titles."""

import re
from collections import Counter
from collections.abc import Iterable
from difflib import SequenceMatcher, get_close_matches
from functools import lru_cache
from math import log10

from django.db.models import Max

from webapp.papers.models import Paper
from webapp.papers.search.query import words_of

TITLES = 5_000  # the latest, whose words and authors' names are suggested
SHORTEST = 4  # letters of a word that is corrected
LIKENESS = 0.8  # of two words, by difflib's ratio
_WORD = re.compile(r"[^\W_]+")


def corrected(text: str, missing: Iterable[str]) -> str:
    """`text` with the words `missing` corrected; "" if nothing is similar."""
    near = {word: nearest for word in missing if (nearest := _nearest(word))}
    if not near:
        return ""

    def replaced(match: re.Match[str]) -> str:
        return near.get("".join(words_of(match[0])), match[0])

    return _WORD.sub(replaced, text)


def _nearest(word: str) -> str:
    if len(word) < SHORTEST:
        return ""
    counts = _title_words(Paper.objects.aggregate(last=Max("pk"))["last"])
    # The first letter is seldom wrong, only left out or one too many.
    alike = [
        candidate
        for candidate in counts
        if candidate[0] == word[0] or word.endswith(candidate) or candidate.endswith(word)
    ]

    def nearness(candidate: str) -> float:  # of about equally similar words, the more frequent
        return SequenceMatcher(a=candidate, b=word).ratio() + 0.02 * log10(counts[candidate])

    return max(get_close_matches(word, alike, cutoff=LIKENESS), key=nearness, default="")


@lru_cache(maxsize=1)
def _title_words(last: int | None) -> Counter[str]:
    """The number of latest titles with each word; `last`, the latest paper, keys the cache."""
    counts: Counter[str] = Counter()
    papers = Paper.objects.order_by("-pk").values_list("title", "authors")
    for title, authors in papers[:TITLES]:
        names = " ".join(author["name"] for author in authors[:20])
        counts.update({word for word in words_of(f"{title} {names}") if len(word) >= SHORTEST})
    return counts
