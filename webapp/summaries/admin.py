"""Summaries and their cost, for the administrators of the site."""

from django.contrib import admin

from webapp.summaries.models import FullText, ModelCall, ServerCapability, Summary


@admin.register(Summary)
class SummaryAdmin(admin.ModelAdmin):  # type: ignore[type-arg]
    """Every summary with its state and reason; its cost is listed by request."""

    list_display = ("paper", "version", "language", "model", "state", "reason")
    list_filter = ("state", "language", "model")
    search_fields = ("paper__arxiv_id", "paper__title")
    raw_id_fields = ("paper",)
    readonly_fields = ("requested_at",)


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
