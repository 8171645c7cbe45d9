"""Digests in templates of any room: what a reader saved, and where the feeds of a list are."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import date

from django import template
from django.template.context import RequestContext
from django.urls import reverse

from webapp.digests.models import DigestEntry, Profile, Star
from webapp.digests.scoring.terms import keyword_name
from webapp.papers.models import Paper

register = template.Library()


@register.simple_tag(takes_context=True)
def starred(context: RequestContext, papers: Iterable[Paper]) -> set[int]:
    """Primary keys of those papers that the signed-in reader keeps; none for the anonymous."""
    reader = context["user"]
    if not reader.is_authenticated:
        return set()
    kept = Star.objects.filter(reader=reader, paper__in=list(papers))
    return set(kept.values_list("paper_id", flat=True))


@register.simple_tag(takes_context=True)
def starred_entries(context: RequestContext, entries: Iterable[DigestEntry]) -> set[int]:
    """The same for entries of a digest."""
    return starred(context, [entry.paper for entry in entries])


@register.simple_tag(takes_context=True)
def starred_one(context: RequestContext, paper: Paper) -> set[int]:
    """The same for one paper."""
    return starred(context, [paper])


register.filter(keyword_name)


@register.filter
def profile_address(profile: Profile) -> str:
    """The address of a profile's latest day."""
    if profile.is_site:
        return reverse("digests:today")
    return reverse("digests:profile", args=[profile.slug])


@register.simple_tag
def day_address(profile: Profile, day: date) -> str:
    """The address of one day of a profile."""
    if profile.is_site:
        return reverse("digests:day", args=[day])
    return reverse("digests:profile-day", args=[profile.slug, day])


@register.filter
def feed_address(of: Profile | str) -> str:
    """The address of the feeds of a profile or category; `.rss`, `.atom` or `.json` follows."""
    if isinstance(of, str):
        return reverse("digests:category", args=[of]).rstrip("/")
    if of.is_site:
        return reverse("digests:archive").rstrip("/")
    return profile_address(of).rstrip("/")
