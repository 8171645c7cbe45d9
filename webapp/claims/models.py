"""The tables of a paper as its HTML has them."""

from django.db import models

from webapp.papers.models import Paper


class TableReading(models.Model):
    """The reading of one version's tables, with the reason where it has none; done once."""

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
