"""arXiv's papers, and the audit of every batch that was requested."""

import re
from collections.abc import Mapping
from datetime import date as Date
from datetime import datetime
from functools import cache

from django.db import models
from django.db.models import UniqueConstraint
from django.urls import reverse
from django.utils.translation import gettext_lazy as _

from webapp.core.leases import Leased
from webapp.papers.days import has_batch
from webapp.papers.repositories import repository

CONFIRMATIONS = 3  # days on which the API must have no papers before an empty day is settled


_WORK = (
    "(?:paper|article|submission|manuscript|preprint|pre-print|work|version|note|draft|document"
    "|report|letter|e-print|eprint|thesis|contribution)"
)
# Withdrawn from a conference, or a drug from the market, is something else.
_GONE = (
    r"(?:withdrawn|retracted)\b"
    r"(?!\s+from\b(?!\s+(?:the\s+)?arxiv)|\s+at\b(?!\s+(?:the\s+)?(?:authors?.?\s+)?request))"
)
_SINCE = r"(?:(?:now|since|temporarily|hereby|therefore|also|being|been|voluntarily)\s+)*"
_FROM_ARXIV = (
    # This paper has been withdrawn; this paper contains errors and has been withdrawn.
    rf"\b{_WORK}\s+(?:(?:contains?|has|had|includes?)\b[^.;]{{1,80}}\b(?:and|so|which)\s+)?"
    rf"(?:it\s+)?(?:has|is|was|have)\s+{_SINCE}{_GONE}"
    rf"|(?:^|[.;:,]\s)\s*(?:this |the )?{_WORK} {_GONE}"
    # The authors have decided to withdraw this paper; we withdraw our submission.
    r"|\b(?:we|i|authors?)\b[^.;]{0,60}?\b(?:withdraw|withdrew|withdrawn|withdrawing|retract|retracted)"
    rf"\s+(?:this|the|our|my)\s+(?:\w+\s+)?{_WORK}\b(?!\s+from\b(?!\s+(?:the\s+)?arxiv))"
    rf"|\b(?:has|have) withdrawn (?:this|the) {_WORK}\b"
    # Removed by its authors, or by arXiv's administrators.
    rf"|\b{_WORK}\s+(?:has been|was|is)\s+(?:removed|withdrawn)"
    r"\s+by\s+(?:the\s+)?(?:arxiv|admin|authors?\b(?![’\']))"
    rf"|^\W*{_GONE}(?=\W*$|[\])]|[:.,;(]|\s+[-–—]|\s(?:by|due|because|for|as|since|pending|on|at"
    r"|until|temporarily|in)\b)"
    r"|^\W*withdrawal\s+(?:of|requested|notice)\b"
)
_WITHDRAWN = re.compile(_FROM_ARXIV, re.IGNORECASE)
# A comment alone says it so shortly: "12 pages, withdrawn by the author".
_WITHDRAWN_IN_COMMENT = re.compile(
    rf"{_FROM_ARXIV}|\bwithdrawn\s+by\s+(?:the\s+|its\s+|all\s+)?(?:authors?|arxiv|admin|submitter)"
    r"|\bremoved\s+by\s+(?:the\s+|its\s+)?(?:arxiv|authors?\b(?![’\']))"
    r"|\b(?:has|have) been withdrawn(?=\W*$)",
    re.IGNORECASE,
)
_STEMS = ("withdr", "retract", "removed")  # one of which stands wherever these match


class AnnounceType(models.TextChoices):
    """arXiv's kinds of announcement in a category, the most significant first."""

    NEW = "new", _("new")
    CROSS = "cross", _("cross-list")
    REPLACE = "replace", _("replacement")
    REPLACE_CROSS = "replace-cross", _("replaced cross-list")

    @property
    def precedence(self) -> int:
        """The lowest wins where a paper has several announcements."""
        return list(AnnounceType).index(self)


ANY = "0704.0001"  # an identifier in the place of others


@cache
def _path_of_any() -> str:
    return reverse("papers:paper", args=[ANY])


class Paper(models.Model):
    """One paper, in its latest known version."""

    # Without a version: 2512.14925, hep-th/9901001.
    arxiv_id = models.CharField(max_length=32, unique=True)
    version = models.PositiveSmallIntegerField(default=1)
    title = models.TextField()
    abstract = models.TextField()
    authors = models.JSONField(default=list)  # [{"name": str, "affiliation": str}]
    primary_category = models.CharField(max_length=32, db_index=True)
    categories = models.JSONField(default=list)  # [str], the primary one first
    # Rendered once, on arrival: mathematics as MathML, then sanitised.
    title_html = models.TextField()
    abstract_html = models.TextField()
    submitted_at = models.DateTimeField(null=True, blank=True)  # version 1; only from the API
    updated_at = models.DateTimeField(null=True, blank=True)  # latest version; only the API
    comment = models.TextField(blank=True)
    doi = models.CharField(max_length=255, blank=True)
    journal_ref = models.TextField(blank=True)
    license = models.CharField(max_length=255, blank=True)
    code_offered = models.CharField(max_length=255, blank=True)  # a repository, in its full text
    announced_on = models.DateField(null=True, blank=True, db_index=True)  # the first day
    enriched_at = models.DateTimeField(null=True, blank=True, db_index=True)
    enrich_tries = models.PositiveSmallIntegerField(default=0)  # requests the API could not answer
    is_sample = models.BooleanField(default=False)
    # {kind: {subject: value}}, the last of readers' corrections: `webapp.claims.corrections`.
    corrections = models.JSONField(null=True, blank=True)

    def __str__(self) -> str:
        return f"{self.arxiv_id}v{self.version}"

    @property
    def path(self) -> str:
        """The address of its page; to reverse each of a feed's would take a tenth of its time."""
        return _path_of_any().replace(ANY, self.arxiv_id)

    @property
    def author_names(self) -> list[str]:
        """The names of its authors."""
        return [author["name"] for author in self.authors]

    @property
    def repository(self) -> str:
        """The address of the authors' code, as abstract or comment name it, else the full text."""
        return repository(self.abstract, self.comment) or self.code_offered

    @property
    def withdrawn(self) -> bool:
        """True if its authors or arXiv withdrew it, by the comment or the start of the abstract.

        Withdrawn from a conference does not count.
        """
        opening = self.abstract[:200]
        words = f"{self.comment} {opening}".lower()
        if not any(stem in words for stem in _STEMS):  # nearly every paper: on a page of hundreds
            return False
        in_comment = _WITHDRAWN_IN_COMMENT.search(self.comment)
        return bool(in_comment or _WITHDRAWN.search(opening))

    @property
    def marked_title(self) -> str:
        """The title as plain text, marked if the paper was withdrawn."""
        return f"Withdrawn: {self.title}" if self.withdrawn else self.title


class PaperVersion(models.Model):
    """The text of one version, kept to show what a replacement changed."""

    paper = models.ForeignKey(Paper, on_delete=models.CASCADE, related_name="versions")
    number = models.PositiveSmallIntegerField()
    title = models.TextField()
    abstract = models.TextField()
    announced_on = models.DateField(null=True, blank=True)

    class Meta:
        ordering = ("number",)
        constraints = [UniqueConstraint(fields=["paper", "number"], name="one_row_a_version")]


class Listing(models.Model):
    """The audit of one category's batch on one day: what arXiv sent, and the outcome."""

    class State(models.TextChoices):
        COMPLETE = "complete", "complete"
        EMPTY = "empty", "empty"
        STALE = "stale", "stale"
        FAILED = "failed", "failed"

    class Source(models.TextChoices):
        RSS = "rss", "RSS"
        ATOM = "atom", "Atom"
        API = "api", "API"
        SAMPLE = "sample", _("sample")

    category = models.CharField(max_length=32)
    date = models.DateField(db_index=True)  # the day arXiv announces, Eastern time
    state = models.CharField(max_length=8, choices=State.choices)
    source = models.CharField(max_length=6, choices=Source.choices)
    reason = models.TextField(blank=True)  # why it is stale, empty or failed
    counts = models.JSONField(default=dict)  # {"new": 120, "cross": 40, …}
    problems = models.JSONField(default=list)  # [{"item": str, "reason": str}]: entries rejected
    failures = models.JSONField(default=list)  # [{"at": iso, "source": str, "reason": str}]
    feed_was_empty = models.BooleanField(default=False)  # a valid feed of the day had no papers
    api_empty_on = models.JSONField(default=list)  # [ISO date]: when the API had none for the day
    etag = models.CharField(max_length=255, blank=True)
    last_modified = models.CharField(max_length=64, blank=True)
    polls = models.PositiveIntegerField(default=0)
    polled_at = models.DateTimeField()  # the last request
    changed_at = models.DateTimeField()  # the last time the outcome changed

    class Meta:
        ordering = ("-date", "category")
        constraints = [UniqueConstraint(fields=["category", "date"], name="one_listing_a_day")]

    @classmethod
    def locked(cls, category: str, day: Date, moment: datetime, state: str) -> "Listing":
        """The day's listing, in `state` if it is new, locked until the transaction ends.

        The lock makes processes that poll the same batch write one after the other.
        """
        new = {"state": state, "polled_at": moment, "changed_at": moment}
        rows = cls.objects.select_for_update()
        return rows.get_or_create(category=category, date=day, defaults=new)[0]

    def record_poll(self, moment: datetime, outcome: Mapping[str, object]) -> None:
        """Store the outcome of one more poll; an empty one changes nothing."""
        # Pages are cached by `changed_at`, so it moves only when something that they show does.
        shown = outcome.keys() - {"etag", "last_modified"}
        if any(getattr(self, name) != outcome[name] for name in shown):
            self.changed_at = moment
        for name, value in outcome.items():
            setattr(self, name, value)
        self.polls += 1
        self.polled_at = moment
        self.save()

    @property
    def settled(self) -> bool:
        """True if the day need not be fetched any more: an empty one only once confirmed."""
        if self.state != self.State.EMPTY:
            return self.state == self.State.COMPLETE
        confirmed = self.feed_was_empty and len(self.api_empty_on) >= CONFIRMATIONS
        return confirmed or not has_batch(self.date)


class Announcement(models.Model):
    """One paper in one listing."""

    listing = models.ForeignKey(Listing, on_delete=models.CASCADE, related_name="announcements")
    paper = models.ForeignKey(Paper, on_delete=models.CASCADE, related_name="announcements")
    type = models.CharField(max_length=13, choices=AnnounceType.choices)
    version = models.PositiveSmallIntegerField()

    class Meta:
        constraints = [
            UniqueConstraint(fields=["listing", "paper"], name="announced_once_a_listing")
        ]

    @property
    def weight(self) -> tuple[int, int]:
        """The lowest wins where a paper has several announcements."""
        return AnnounceType(self.type).precedence, -self.version


class ArxivSlot(Leased):
    """The single slot for requests to arXiv, shared by all processes and machines: row 1."""

    free_at = models.DateTimeField()  # no request starts earlier
