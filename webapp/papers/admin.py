"""The operator's view of the intake: rows to look at, never to edit by hand."""

from __future__ import annotations

from django.contrib import admin
from django.http import HttpRequest

from webapp.papers.models import ArxivSlot, Listing, Paper


class LookOnly(admin.ModelAdmin):  # type: ignore[type-arg]
    """What arXiv said is not ours to change."""

    def has_add_permission(self, request: HttpRequest) -> bool:
        """Nobody adds rows here."""
        return False

    def has_change_permission(self, request: HttpRequest, obj: object | None = None) -> bool:
        """Nobody changes rows here."""
        return False

    def has_delete_permission(self, request: HttpRequest, obj: object | None = None) -> bool:
        """Nobody deletes rows here."""
        return False


@admin.register(Paper)
class PaperAdmin(LookOnly):
    """Papers by identifier."""

    list_display = ("arxiv_id", "version", "title", "primary_category", "announced_on")
    list_filter = ("primary_category", "is_sample")
    search_fields = ("arxiv_id", "title")


@admin.register(Listing)
class ListingAdmin(LookOnly):
    """The audit."""

    list_display = ("category", "date", "state", "source", "reason", "polls", "polled_at")
    list_filter = ("state", "source", "category")
    date_hierarchy = "date"


@admin.register(ArxivSlot)
class ArxivSlotAdmin(LookOnly):
    """Who asks arXiv at the moment, and when the next may."""

    list_display = ("id", "holder", "held_until", "free_at")
