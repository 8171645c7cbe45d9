"""The tables of a paper as its HTML has them, and the values in them that are sure."""

from django.db import models

from webapp.claims import surroundings
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

    @property
    def model(self) -> str:
        """The only model that the setting or the table's caption names."""
        return surroundings.model(f"{self.setting} {self.table.caption}")

    @property
    def hardware(self) -> str:
        """The only hardware that the setting or the table's caption names."""
        return surroundings.hardware(f"{self.setting} {self.table.caption}")


class AbstractReading(models.Model):
    """That the abstract of a paper was read for numbers, in which version and by which rules."""

    paper = models.OneToOneField(Paper, on_delete=models.CASCADE, related_name="abstract_reading")
    version = models.PositiveSmallIntegerField()
    rules = models.CharField(max_length=16)  # webapp.claims.abstracts.fingerprint
    read_at = models.DateTimeField(auto_now=True)

    def __str__(self) -> str:
        return f"{self.paper_id}v{self.version}"


class AbstractNumber(models.Model):
    """A number of an abstract whose quantity is known, in the words of the abstract."""

    paper = models.ForeignKey(Paper, on_delete=models.CASCADE, related_name="abstract_numbers")
    metric = models.CharField(max_length=80)  # its usual name
    relation = models.CharField(max_length=8)  # level, gain, loss, share, within, ratio
    benchmark = models.CharField(max_length=80, blank=True)
    against = models.CharField(max_length=80, blank=True)  # a comparator
    stage = models.CharField(max_length=20, blank=True)
    name = models.CharField(max_length=200)  # the metric in the abstract's words
    direction = models.CharField(max_length=6, blank=True)
    subject = models.CharField(max_length=300, blank=True)
    baseline = models.CharField(max_length=300, blank=True)
    setting = models.CharField(max_length=300, blank=True)
    text = models.CharField(max_length=80)  # as it is written
    value = models.DecimalField(max_digits=30, decimal_places=12, null=True)  # None for a range
    quote = models.TextField()
    start = models.PositiveIntegerField()  # of the number in the abstract
    end = models.PositiveIntegerField()

    class Meta:
        indexes = [models.Index(fields=["metric", "relation", "paper"])]

    def __str__(self) -> str:
        return f"{self.name} {self.text}"

    @property
    def said(self) -> str:
        """The number with its direction: "30% less"; a speed-up of 3× is no "3× more"."""
        is_in_the_name = "speed" in self.metric or "→" in self.text
        return self.text if is_in_the_name else f"{self.text} {self.direction}".strip()

    @property
    def told(self) -> str:
        """The number with its metric, as a row tells it: "30% less memory", "97% of accuracy"."""
        if self.relation == "within":
            return f"{self.name} within {self.text}"
        return f"{self.said} {'of ' if self.relation == 'share' else ''}{self.name}"

    @property
    def fragment(self) -> str:
        """The fragment of its place on its paper's page."""
        return f"number-{self.start}"

    @property
    def model(self) -> str:
        """The only model that its sentence names, the baseline apart."""
        return surroundings.model(self._around)

    @property
    def hardware(self) -> str:
        """The only hardware that its sentence names, the baseline apart."""
        return surroundings.hardware(self._around)

    @property
    def _around(self) -> str:
        quote = " ".join(self.quote.split())
        return quote.replace(self.baseline, " ") if self.baseline else quote


class Comparator(models.Model):
    """What papers compare with, besides those of comparators.toml: a name and how it is written."""

    name = models.CharField(max_length=80, unique=True)
    written = models.TextField(help_text="One way to write it a line, in small letters.")

    def __str__(self) -> str:
        return self.name
