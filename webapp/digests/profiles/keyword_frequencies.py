"""Frequencies of keywords in the papers of the last weeks, counted at most once a week."""

from collections import Counter
from collections.abc import Sequence
from datetime import date as Date
from datetime import timedelta

from django.db.models import Q

from webapp.digests.models import Profile
from webapp.digests.profiles.defaults import KEYWORDS
from webapp.digests.scoring.matchers import term_matchers
from webapp.digests.scoring.scorer import author_of
from webapp.digests.scoring.terms import term
from webapp.digests.scoring.texts import FoldedText
from webapp.papers.models import Paper

COUNTED_PERIOD = timedelta(weeks=4)
LEAST_PAPERS = 300  # fewer are no sample for a keyword in one paper of a hundred
MOST_PAPERS = 4_000
RECOUNT_AFTER = timedelta(days=7)


def count_frequencies(keywords: Sequence[str]) -> dict[str, float]:
    """The number of papers with each keyword, of 1,000 recent ones.

    A site with few papers only has the frequencies of the default profile.
    """
    words = [text for text in keywords if not author_of(text)]
    papers = _recent_papers()
    if len(papers) < LEAST_PAPERS:
        return {text: KEYWORDS[text] for text in words if text in KEYWORDS}
    found: Counter[int] = Counter()
    matchers = term_matchers([term(text) for text in words], single=True)
    for title, abstract in papers:
        texts = FoldedText(title), FoldedText(abstract)
        for matcher in matchers:
            found.update(matcher.match(*texts)[1])
    return {text: round(1000 * found[number] / len(papers), 1) for number, text in enumerate(words)}


def _recent_papers() -> list[tuple[str, str]]:
    """Titles and abstracts of the last weeks with papers, the latest first."""
    real = Paper.objects.filter(is_sample=False, announced_on__isnull=False)
    latest = real.order_by("-announced_on").values_list("announced_on", flat=True).first()
    if latest is None:
        return []
    rows = real.filter(announced_on__gt=latest - COUNTED_PERIOD).order_by("-announced_on", "-pk")
    return list(rows.values_list("title", "abstract")[:MOST_PAPERS])


def recount_stale_frequencies(today: Date) -> None:
    """Count again for every profile weighted by rarity whose count is a week old."""
    old = Q(counted_on=None) | Q(counted_on__lte=today - RECOUNT_AFTER)
    for profile in Profile.objects.filter(old, matching=Profile.Matching.RARITY):
        known = count_frequencies([keyword["keyword"] for keyword in profile.keywords])
        profile.keywords = [
            {**keyword, "frequency": known.get(keyword["keyword"], keyword.get("frequency"))}
            for keyword in profile.keywords
        ]
        profile.counted_on = today
        profile.save(update_fields=["keywords", "counted_on", "updated_at"])
