"""Links between papers and methods, each with its evidence and any decision on it."""

from django.db import models
from django.db.models import Q
from django.utils import timezone

from webapp.papers.models import Paper


class MethodLink(models.Model):
    """A paper's relation to a method that we carry."""

    class Relation(models.TextChoices):
        SOURCE = "source", "the method's own paper"
        ABOUT = "about", "about it"
        USES = "uses", "uses or compares it"
        MENTIONS = "mentions", "mentions it"

    paper = models.ForeignKey(Paper, on_delete=models.CASCADE, related_name="method_links")
    method = models.CharField(max_length=64, db_index=True)  # its slug; the registry has the rest
    relation = models.CharField(max_length=8, choices=Relation.choices)
    score = models.FloatField(default=0.0)  # probability that the paper is about it
    evidence = models.JSONField(default=list)  # [{"words", "place", "weight"}], weightiest first
    # What a person corrected (`webapp.catalog.corrections`): whether the paper is about the method,
    # and its mechanism, "" for none of ours. Null: nothing.
    confirmed = models.BooleanField(null=True)
    mechanism = models.CharField(max_length=64, null=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["paper", "method"], name="linked_once")]

    @staticmethod
    def counting() -> Q:
        """The links that count in chips, feeds and numbers: about and source, unless rejected."""
        relation = MethodLink.Relation
        judged = Q(relation__in=[relation.SOURCE, relation.ABOUT], confirmed=None)
        return judged | Q(confirmed=True)


class LinkingState(models.Model):
    """Up to when papers were linked, and by which evidence; one row, id 1."""

    linked_until = models.DateTimeField()  # the latest change of a listing that was looked at
    answered_until = models.DateTimeField(null=True)  # the latest summary that was looked at
    fingerprint = models.CharField(max_length=64)  # of families, identifiers, weights
    # While all papers are linked by new evidence, the latest first: those with smaller keys wait.
    relinking_below = models.PositiveBigIntegerField(null=True)
    changed_at = models.DateTimeField(default=timezone.now)  # when any link last changed
