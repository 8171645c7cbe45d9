"""Which papers concern which methods, each link with the words that made it."""

from __future__ import annotations

from django.db import models

from webapp.papers.models import Paper


class MethodLink(models.Model):
    """A paper concerns a method that we carry."""

    class Reason(models.TextChoices):
        SOURCE = "source", "the method's own paper"
        NAMED = "named", "a paper the method names"
        CITES = "cites", "cites a paper of the method"
        WORDS = "words", "speaks of it"

    paper = models.ForeignKey(Paper, on_delete=models.CASCADE, related_name="method_links")
    method = models.CharField(max_length=64, db_index=True)  # its slug; the registry has the rest
    reason = models.CharField(max_length=6, choices=Reason.choices)
    words = models.CharField(max_length=200)  # as they stand in the paper, or its identifier

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["paper", "method"], name="linked_once"),
        ]

    def __str__(self) -> str:
        return f"{self.paper_id} {self.method}: {self.words}"


class LinkPulse(models.Model):
    """Up to when papers were linked, and by which signs; one row, id 1."""

    linked_until = models.DateTimeField()  # the latest change of a listing that was looked at
    signs = models.CharField(max_length=64)  # of the methods' identifiers and aliases

    def __str__(self) -> str:
        return f"{self.linked_until:%Y-%m-%d %H:%M}"
