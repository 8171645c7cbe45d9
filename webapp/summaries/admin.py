"""Summaries and what they cost, for whoever runs the site."""

from __future__ import annotations

from django.contrib import admin
from django.db.models import F, QuerySet, Sum
from django.http import HttpRequest

from webapp.summaries.models import FullText, ModelCall, ServerCapability, Summary


@admin.register(Summary)
class SummaryAdmin(admin.ModelAdmin):  # type: ignore[type-arg]
    """Every summary with its state, its reason and its tokens."""

    list_display = ("paper", "version", "language", "model", "state", "reason", "tokens")
    list_filter = ("state", "language", "model")
    search_fields = ("paper__arxiv_id", "paper__title")
    raw_id_fields = ("paper",)
    readonly_fields = ("requested_at",)

    def get_queryset(self, request: HttpRequest) -> QuerySet[Summary]:
        """The rows, each with the tokens its requests took."""
        spent = Sum(F("calls__tokens_in") + F("calls__tokens_out"), default=0)
        rows: QuerySet[Summary] = super().get_queryset(request)
        return rows.annotate(spent=spent)

    @admin.display(ordering="spent")
    def tokens(self, summary: Summary) -> int:
        """Tokens of all requests for this summary, both ways."""
        return int(getattr(summary, "spent", 0))


@admin.register(ModelCall)
class ModelCallAdmin(admin.ModelAdmin):  # type: ignore[type-arg]
    """Every request with its tokens."""

    list_display = ("at", "model", "summary", "tokens_in", "tokens_out", "settled", "error")
    list_filter = ("day", "model", "settled")
    raw_id_fields = ("summary",)


@admin.register(FullText)
class FullTextAdmin(admin.ModelAdmin):  # type: ignore[type-arg]
    """What was read of each paper."""

    list_display = ("paper", "version", "source", "share", "fetched_at", "reason")
    list_filter = ("source",)
    raw_id_fields = ("paper",)


admin.site.register(ServerCapability)
