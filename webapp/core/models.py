"""The revisions of what pages show, and the work that waits since something changed."""

from django.db import models


class Raised(models.Model):
    """A random number that every write of what belongs to a scope replaces.

    `webapp.core.revisions` says who writes and reads it. Random, and no counter: neither a restored
    backup nor a transaction that was rolled back brings back a number under which another page was
    kept.
    """

    pk = models.CompositePrimaryKey("scope", "slot")
    scope = models.CharField(max_length=100)  # "papers", "run:0198c0de…"; "learn:7"
    slot = models.PositiveSmallIntegerField()
    token = models.BigIntegerField()

    class Meta:
        abstract = True


class Revision(Raised):
    """The revision of what a page shows."""


class Pending(Raised):
    """Work that waits: a row goes once it is done, unless it was raised again meanwhile."""


class Settled(models.Model):
    """Under which revisions work was last done, so that it is not done again under the same."""

    work = models.CharField(primary_key=True, max_length=40)
    revisions = models.CharField(max_length=64)  # a hash
