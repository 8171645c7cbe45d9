"""Template tags about digests, for templates of any app."""

import re
from collections.abc import Mapping, Sequence
from datetime import date
from functools import lru_cache
from typing import Any

from django import template
from django.db.models import Q
from django.template.context import RequestContext
from django.urls import reverse
from django.utils.safestring import SafeString, mark_safe
from django.utils.translation import gettext, gettext_noop

from webapp.digests.models import DigestEntry, Profile
from webapp.digests.scoring.terms import keyword_name
from webapp.learning.preferences import CHOSEN
from webapp.papers import proposal
from webapp.papers.models import Paper
from webapp.ui.language import current_language

register = template.Library()
SCORES = 3  # of one paper, on its page
REASONS = 2  # shown in a row of the list
OF_CHOSEN = {
    "very close": gettext_noop("very close to this feed’s papers"),
    "close": gettext_noop("close to this feed’s papers"),
    "further": gettext_noop("less close to this feed’s papers"),
}
OF_SAVED = {
    "very close": gettext_noop("very close to saved papers"),
    "close": gettext_noop("close to saved papers"),
    "further": gettext_noop("less close to saved papers"),
}


@register.inclusion_tag("digests/why.html", takes_context=True)
def why_in_digest(context: RequestContext, paper: Paper) -> dict[str, object]:
    """Show the reasons for a paper in the site's digests and in the reader's own."""
    whose = Q(digest__profile__is_site=True)
    if context["user"].is_authenticated:
        whose |= Q(digest__profile__owner=context["user"])
    entries = DigestEntry.objects.filter(whose, paper=paper.pk).select_related("digest__profile")
    shown = entries.order_by("-digest__profile__is_site", "-digest__date")[:SCORES]
    return {"paper": paper, "entries": shown, "user": context["user"]}


@register.filter
def what_it_did(paper: Paper) -> str:
    """Return the sentence of a paper's abstract that says what its authors did."""
    return proposal.what_it_did(paper.abstract, paper.title)


@register.simple_tag(takes_context=True)
def readers_feeds(context: RequestContext) -> list[tuple[Profile, bool]]:
    """Return the reader's feeds and then the site's, each with whether the page shows it."""
    mine = Q(owner=context["user"].pk)
    feeds = list(Profile.objects.filter(mine | Q(is_site=True)).order_by("is_site", "created_at"))
    match = context["request"].resolver_match
    slug = match.kwargs.get("slug") if match else None
    if slug is None and feeds:
        slug = feeds[-1 if match and "date" in match.kwargs else 0].slug
    return [(feed, feed.slug == slug) for feed in feeds]


@register.filter
def figure_text(chip: Mapping[str, str]) -> str:
    """Return the figure of a chip in the language of the page."""
    return chip.get(f"figure_{current_language()}") or chip["figure"]


@register.filter
def matched_text(match: Mapping[str, Any]) -> str:
    """Return the words of the paper that matched, else the keyword."""
    return match.get("text") or keyword_name(match["keyword"])


@register.filter
def is_of_chosen(match: Mapping[str, Any]) -> bool:
    """True if a match is closeness to the papers chosen for the site's own list."""
    return bool(match["keyword"] == CHOSEN)


@register.filter
def closeness(match: Mapping[str, Any], is_brief: bool = False) -> str:
    """Return how close a paper is to what was saved; the title of the nearest may follow."""
    degree = match.get("closeness")
    if degree is None:
        return gettext("similar to a paper marked “Not for me”:")
    if match.get("near") and not is_brief:
        return gettext("very close to") if degree == "very close" else gettext("close to")
    phrases = OF_CHOSEN if is_of_chosen(match) else OF_SAVED
    return gettext(phrases.get(degree, phrases["further"]))


@register.filter
def strongest(matches: Sequence[Mapping[str, Any]]) -> list[tuple[int, Mapping[str, Any]]]:
    """Return the matches with the most points, each with its number.

    That a paper is less close than others is a reason against it, which the rest names.
    """
    reasons = [
        (number, match)
        for number, match in enumerate(matches)
        if match.get("closeness") != "further" or len(matches) == 1
    ]
    return sorted(reasons, key=lambda pair: (is_of_chosen(pair[1]), -pair[1]["points"]))[:REASONS]


@register.filter
def number_of_weaker(matches: Sequence[Mapping[str, Any]]) -> int:
    """Return how many reasons a row has no room for."""
    return len(matches) - len(strongest(matches))


@register.filter
def from_proposal(html: str, paper: Paper) -> SafeString:
    """Return an abstract's HTML with what stands before its informative sentence in a span."""
    sentence = proposal.informative_sentence(paper.abstract, paper.title)
    words = re.split(r"\s+|[-\\$&<>\"'{}]", sentence, maxsplit=5)[:5]
    opening = re.compile(r"(?:\s|<[^>]*>)+".join(map(re.escape, filter(None, words[:-1]))))
    match = opening.search(html) if len(words) > 3 else None
    before = html[: match.start()] if match else ""
    if not before.strip() or len(re.findall(r"<\w", before)) != before.count("</"):
        return mark_safe(html)  # noqa: S308 - sanitised before
    return mark_safe(f'<span class="before">{before}</span>{html[len(before) :]}')  # noqa: S308


@register.filter
def profile_address(profile: Profile) -> str:
    """Return the URL of a feed's latest day."""
    return reverse("digests:profile", args=[profile.slug])


@register.simple_tag
def day_address(profile: Profile, day: date) -> str:
    """The URL of one day of a profile."""
    if profile.is_site:
        return reverse("digests:day", args=[day])
    return reverse("digests:profile-day", args=[profile.slug, day])


@register.filter
@lru_cache(maxsize=256)
def category_address(category: str) -> str:
    """The URL of a category; kept, because every card has one."""
    return reverse("digests:category", args=[category])


@register.filter
def feed_address(of: Profile | str) -> str:
    """The URL of the feeds of a profile or category, without `.rss`, `.atom` or `.json`."""
    if isinstance(of, str):
        return category_address(of).rstrip("/")
    if of.is_site:
        return reverse("digests:archive").rstrip("/")
    return profile_address(of).rstrip("/")
