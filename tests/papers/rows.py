"""The rows of papers in the database, without keys and times of polls."""

from __future__ import annotations

from typing import Any

from webapp.papers.models import Announcement, Listing, Paper, PaperVersion

PAPER = (
    *("arxiv_id", "version", "title", "abstract", "title_html", "abstract_html", "authors"),
    *("primary_category", "categories", "announced_on", "doi", "journal_ref", "license"),
    *("comment", "submitted_at", "updated_at"),
)
VERSION = ("paper__arxiv_id", "number", "title", "abstract", "announced_on")
LISTING = ("category", "date", "state", "source", "reason", "counts", "problems")
ANNOUNCEMENT = ("listing__category", "listing__date", "paper__arxiv_id", "type", "version")


def rows() -> dict[str, list[Any]]:
    return {
        "papers": list(Paper.objects.order_by("arxiv_id").values_list(*PAPER)),
        "versions": list(
            PaperVersion.objects.order_by("paper__arxiv_id", "number").values_list(*VERSION)
        ),
        "listings": list(Listing.objects.order_by("date", "category").values_list(*LISTING)),
        "announcements": list(
            Announcement.objects.order_by(*ANNOUNCEMENT).values_list(*ANNOUNCEMENT)
        ),
    }
