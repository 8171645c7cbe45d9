"""The tables of a paper as its HTML has them, and readers' corrections."""

from django.conf import settings
from django.db import models
from django.utils import timezone
from django.utils.translation import gettext_lazy as _

from webapp.papers.models import Paper


class TableReading(models.Model):
    """The reading of one version's tables, or the reason for having none; done once."""

    paper = models.ForeignKey(Paper, on_delete=models.CASCADE, related_name="table_readings")
    version = models.PositiveSmallIntegerField()
    reason = models.CharField(max_length=300, blank=True)  # why there are none
    read_at = models.DateTimeField(auto_now=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["paper", "version"], name="tables_read_once")
        ]

    def __str__(self) -> str:
        return f"{self.paper_id}v{self.version} {self.reason}"


class PaperTable(models.Model):
    """One table of a reading, cell by cell."""

    reading = models.ForeignKey(TableReading, on_delete=models.CASCADE, related_name="tables")
    position = models.PositiveSmallIntegerField()  # in the order of the page
    number = models.CharField(max_length=40, blank=True)  # "Table 3"
    caption = models.TextField(blank=True)
    anchor = models.CharField(max_length=120, blank=True)  # its id on arXiv's page
    cells = models.JSONField()  # webapp.claims.tables.store

    class Meta:
        ordering = ("position",)
        constraints = [
            models.UniqueConstraint(fields=["reading", "position"], name="a_place_once_a_reading")
        ]

    def __str__(self) -> str:
        return f"{self.number or self.position}: {self.caption[:60]}"


class Correction(models.Model):
    """A reader's correction of what a page says of a paper: `webapp.claims.corrections`."""

    class Kind(models.TextChoices):
        QUOTE = "quote", _("quote")  # subject: its text; value: other words of the abstract
        ROW = "row", _("own row")  # subject: the table; value: a row's label or a column's head
        MAIN = "main", _("main table")  # subject: the table; value: True
        CELL = "cell", _("cell of a table")  # subject: its name; value: its text
        CLAIM = "claim", _("result")  # subject: its number and quote
        LINK = "link", _("method")  # subject: the method; value: {"mechanism": slug or None}

    paper = models.ForeignKey(Paper, on_delete=models.CASCADE, related_name="corrections_made")
    kind = models.CharField(max_length=5, choices=Kind.choices)
    subject = models.TextField()
    value = models.JSONField(null=True, blank=True)  # null: hidden, or not so
    reader = models.ForeignKey(settings.AUTH_USER_MODEL, null=True, on_delete=models.SET_NULL)
    made_at = models.DateTimeField(default=timezone.now)
    checked_at = models.DateTimeField(null=True, blank=True)  # by an administrator
    undone_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering = ("pk",)
        indexes = [models.Index(fields=["paper", "kind"], name="corrections_of_a_paper")]

    def __str__(self) -> str:
        return f"{self.paper.arxiv_id}: {self.get_kind_display()}"
