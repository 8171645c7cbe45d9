"""The revisions of what pages show."""

from django.db import models


class Revision(models.Model):
    """A random number that every write of what belongs to a scope replaces.

    `webapp.ui.revisions` says who writes and reads it. Random, and no counter: neither a restored
    backup nor a transaction that was rolled back brings back a number under which another page was
    kept.
    """

    pk = models.CompositePrimaryKey("scope", "slot")
    scope = models.CharField(max_length=100)  # "papers", "run:0198c0de…"
    slot = models.PositiveSmallIntegerField()
    token = models.BigIntegerField()
