"""Digests in templates of any room: what keywords are called, and where the feeds of a list are."""

from __future__ import annotations

from datetime import date

from django import template
from django.urls import reverse

from webapp.digests.models import Profile
from webapp.digests.scoring.terms import keyword_name

register = template.Library()


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
