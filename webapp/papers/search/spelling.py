"""A word that no paper holds, as it may have been meant: the nearest of the words in titles."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from difflib import SequenceMatcher
from functools import lru_cache
from math import log10

from django.db.models import Max

from webapp.papers.models import Paper
from webapp.papers.search.query import words_of

TITLES = 5_000  # the latest; their words and their authors' names are what is suggested
SHORTEST = 4  # letters of a word that can be misspelt
LIKENESS = 0.8  # of two words, by difflib's ratio
_WORD = re.compile(r"[^\W_]+")


def corrected(text: str, missing: Iterable[str]) -> str:
    """`text` with the words `missing` as they may have been meant; "" where nothing is near."""
    near = {word: found for word in missing if (found := _nearest(word))}
    if not near:
        return ""

    def replaced(match: re.Match[str]) -> str:
        return near.get("".join(words_of(match[0])), match[0])

    return _WORD.sub(replaced, text)


def _nearest(word: str) -> str:
    if len(word) < SHORTEST:
        return ""
    matcher = SequenceMatcher(b=word, autojunk=False)
    best, found = 0.0, ""
    for known, count in _known_words(Paper.objects.aggregate(last=Max("pk"))["last"]).items():
        if abs(len(known) - len(word)) > 2 or not {known[0], known[-1]} & {word[0], word[-1]}:
            continue
        matcher.set_seq1(known)
        if matcher.real_quick_ratio() < LIKENESS or matcher.quick_ratio() < LIKENESS:
            continue
        likeness = matcher.ratio()
        # Of words equally near, the more frequent.
        if likeness >= LIKENESS and likeness + 0.02 * log10(count) > best:
            best, found = likeness + 0.02 * log10(count), known
    return found


@lru_cache(maxsize=1)
def _known_words(last: int | None) -> Counter[str]:
    """How often each word stands in the latest titles and names; `last` is the latest paper."""
    counts: Counter[str] = Counter()
    papers = Paper.objects.order_by("-pk").values_list("title", "authors")
    for title, authors in papers[:TITLES]:
        names = " ".join(author["name"] for author in authors[:20])
        counts.update({one for one in words_of(f"{title} {names}") if len(one) >= SHORTEST})
    return counts
