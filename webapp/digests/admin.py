"""Profiles and digests for the site's operator, to look at.

What a profile asks for is checked by its own form; digests follow from papers and profiles.
"""

from __future__ import annotations

from django.contrib import admin

from webapp.digests.models import Digest, Profile
from webapp.papers.admin import LookOnly


@admin.register(Profile)
class ProfileAdmin(LookOnly):
    """Who looks for what."""

    list_display = ("name", "slug", "owner", "is_site", "matching", "updated_at")
    list_filter = ("is_site", "matching")
    search_fields = ("name", "slug", "owner__username")


@admin.register(Digest)
class DigestAdmin(LookOnly):
    """What became of each day."""

    list_display = ("profile", "date", "considered", "matched", "changed_at", "is_sample")
    list_filter = ("is_sample",)
    date_hierarchy = "date"
