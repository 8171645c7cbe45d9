"""Frequencies of keywords in the papers of the last weeks, counted at most once a week."""

from collections import Counter
from collections.abc import Collection
from datetime import date as Date
from datetime import timedelta

from django.db.models import Q
from django.utils import timezone

from webapp.digests.models import Profile
from webapp.digests.profiles.defaults import KEYWORDS
from webapp.digests.scoring.matchers import term_matchers
from webapp.digests.scoring.rules import author_of
from webapp.digests.scoring.terms import term
from webapp.digests.scoring.texts import FoldedText
from webapp.papers.models import Paper

COUNTED_PERIOD = timedelta(weeks=4)
LEAST_PAPERS = 300  # fewer are no sample for a keyword in one paper of a hundred
MOST_PAPERS = 4_000
RECOUNT_AFTER = timedelta(days=7)
TOGETHER = 300  # profiles
A_PROFILE = 100  # keywords at most, for which an automaton is faster


def count_frequencies(keywords: Collection[str]) -> dict[str, float]:
    """The number of papers with each keyword, of 1,000 recent ones.

    A site with few papers only has the frequencies of the default profile.
    """
    terms = [text for text in keywords if not author_of(text)]
    papers = _recent_papers()
    if len(papers) < LEAST_PAPERS:
        return {text: KEYWORDS[text] for text in terms if text in KEYWORDS}
    counts: Counter[int] = Counter()
    matchers = term_matchers([term(text) for text in terms], single=len(terms) <= A_PROFILE)
    for title, abstract in papers:
        texts = FoldedText(title), FoldedText(abstract)
        for matcher in matchers:
            counts.update(matcher.match(*texts)[1])
    return {
        text: round(1000 * counts[number] / len(papers), 1) for number, text in enumerate(terms)
    }


def _recent_papers() -> list[tuple[str, str]]:
    """Titles and abstracts of the last weeks with papers, the latest first."""
    real = Paper.objects.filter(is_sample=False, announced_on__isnull=False)
    latest = real.order_by("-announced_on").values_list("announced_on", flat=True).first()
    if latest is None:
        return []
    rows = real.filter(announced_on__gt=latest - COUNTED_PERIOD).order_by("-announced_on", "-pk")
    return list(rows.values_list("title", "abstract")[:MOST_PAPERS])


def recount_stale_frequencies(today: Date) -> None:
    """Count again for every profile weighted by rarity whose count is a week old.

    The papers are read once for TOGETHER profiles.
    """
    old = Q(counted_on=None) | Q(counted_on__lte=today - RECOUNT_AFTER)
    stale = Profile.objects.filter(old, matching=Profile.Matching.RARITY)
    keys = list(stale.values_list("pk", flat=True))
    for start in range(0, len(keys), TOGETHER):
        some = list(Profile.objects.filter(pk__in=keys[start : start + TOGETHER]))
        terms = {keyword["keyword"] for profile in some for keyword in profile.keywords}
        frequencies = count_frequencies(sorted(terms))
        for profile in some:
            keywords = [
                {
                    **keyword,
                    "frequency": frequencies.get(keyword["keyword"], keyword.get("frequency")),
                }
                for keyword in profile.keywords
            ]
            # Unless its reader has changed it meanwhile: then it is counted by the next poll.
            unchanged = Profile.objects.filter(pk=profile.pk, updated_at=profile.updated_at)
            unchanged.update(keywords=keywords, counted_on=today, updated_at=timezone.now())
