"""The tables of a paper as its HTML has them, and the values in them that are sure."""

from django.db import models

from webapp.papers.models import Paper


class TableReading(models.Model):
    """That the tables of one version were read, or why they could not be: asked once."""

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


class ReportedValue(models.Model):
    """A value of a table with subject, benchmark and metric, each named by the table itself."""

    table = models.ForeignKey(PaperTable, on_delete=models.CASCADE, related_name="reported")
    paper = models.ForeignKey(Paper, on_delete=models.CASCADE, related_name="reported_values")
    benchmark = models.CharField(max_length=80)
    metric = models.CharField(max_length=80)
    better = models.CharField(max_length=6)  # higher or lower
    subject = models.CharField(max_length=300)  # whose number it is, in the table's words
    setting = models.CharField(max_length=300, blank=True)
    value = models.DecimalField(max_digits=30, decimal_places=12)
    text = models.CharField(max_length=60)  # as it is written
    unit = models.CharField(max_length=8, blank=True)
    row = models.PositiveSmallIntegerField()
    column = models.PositiveSmallIntegerField()
    is_own = models.BooleanField(default=False)  # in the row of the paper's own method

    class Meta:
        indexes = [models.Index(fields=["benchmark", "metric", "paper"])]

    def __str__(self) -> str:
        return f"{self.subject}: {self.metric} on {self.benchmark} {self.text}"
