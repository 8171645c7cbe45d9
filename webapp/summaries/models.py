"""A paper's text, a model's summary of it with claims, and what it cost."""

from django.db import models
from django.utils.translation import gettext

from webapp.claims.grounding import GroundingState
from webapp.core.leases import Leased
from webapp.papers.models import Paper


class FullText(models.Model):
    """The text of one version as it was read, kept so that it is fetched once."""

    class Source(models.TextChoices):
        HTML = "html", "the full text (HTML)"
        PDF = "pdf", "the full text (PDF)"
        ABSTRACT = "abstract", "the abstract"

        def read(self, share: float) -> str:
            """Return the part that was read: "the first 60% of the full text (PDF)"."""
            part = gettext(self.label)
            if share > 0.995:
                return part
            return gettext("the first %(share)s of %(part)s") % {
                "share": f"{share:.0%}",
                "part": part,
            }

    paper = models.ForeignKey(Paper, on_delete=models.CASCADE, related_name="full_texts")
    version = models.PositiveSmallIntegerField()
    source = models.CharField(max_length=8, choices=Source.choices)
    sections = models.JSONField()  # [{"title": str, "text": str}], in reading order
    sha256 = models.CharField(max_length=64)  # of the sections as stored
    share = models.FloatField(default=1.0)  # of the paper's characters that were kept
    reason = models.TextField(blank=True)  # why nothing better than this could be read
    fetched_at = models.DateTimeField()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["paper", "version"], name="one_text_a_version")
        ]

    def __str__(self) -> str:
        return f"{self.paper_id}v{self.version} {self.source}"

    @property
    def text(self) -> str:
        """The sections as one text."""
        return "\n\n".join(f"{s['title']}\n{s['text']}".strip() for s in self.sections)


class Summary(Leased):
    """One model's summary of one version under one prompt, in one language."""

    class State(models.TextChoices):
        WAITING = "waiting", "waiting"
        RUNNING = "running", "running"
        DONE = "done", "done"
        FAILED = "failed", "failed"

    class Language(models.TextChoices):
        ENGLISH = "en", "English"
        CHINESE = "zh", "中文"

    paper = models.ForeignKey(Paper, on_delete=models.CASCADE, related_name="summaries")
    version = models.PositiveSmallIntegerField()
    prompt_version = models.CharField(max_length=32)
    model = models.CharField(max_length=128)
    language = models.CharField(max_length=2, choices=Language.choices)
    state = models.CharField(max_length=7, choices=State.choices, default=State.WAITING)
    reason = models.TextField(blank=True)  # why it failed or waits
    attempt = models.PositiveSmallIntegerField(default=0)
    written = models.PositiveIntegerField(default=0)  # tokens of the answer under way
    not_before = models.DateTimeField(null=True, blank=True)  # the server asked us to wait
    requested_at = models.DateTimeField(auto_now_add=True)
    for_reader = models.BooleanField(default=False)  # who waits: before what is made by itself
    finished_at = models.DateTimeField(null=True, blank=True)
    gist = models.TextField(blank=True)  # plain text
    gist_html = models.TextField(blank=True)  # rendered, numbers that do not stand marked
    content = models.JSONField(default=dict)  # webapp.summaries.schema.PaperSummary
    html = models.TextField(blank=True)  # rendered and sanitised once
    text_source = models.CharField(max_length=8, blank=True)
    text_share = models.FloatField(default=0.0)  # of the paper that the model was given
    # Of the question that the server read, where it cut it off and did not say so: an estimate.
    read_share = models.FloatField(default=1.0)
    # Numbers, claims and details that were not found in the paper, and statements it contradicts.
    unverified = models.PositiveSmallIntegerField(default=0)
    withheld = models.CharField(max_length=200, blank=True)  # why no card, mail or feed shows it

    class Meta:
        verbose_name_plural = "summaries"
        constraints = [
            models.UniqueConstraint(
                fields=["paper", "version", "prompt_version", "model", "language"],
                name="summarised_once",
            )
        ]
        indexes = [models.Index(fields=["state", "requested_at"])]

    def __str__(self) -> str:
        return f"{self.paper_id}v{self.version} {self.language} {self.state}"


class Claim(models.Model):
    """A number the paper reports, as the summary's model read it, held against the text."""

    State = GroundingState
    summary = models.ForeignKey(Summary, on_delete=models.CASCADE, related_name="claims")
    position = models.PositiveSmallIntegerField()
    metric = models.CharField(max_length=200)
    subject = models.CharField(max_length=300, blank=True)  # whose number it is
    value = models.CharField(max_length=80)
    unit = models.CharField(max_length=40, blank=True)
    direction = models.CharField(max_length=7)  # which is better: higher, lower or unknown
    baseline = models.CharField(max_length=300, blank=True)
    setting = models.CharField(max_length=300, blank=True)
    hardware = models.CharField(max_length=200, blank=True)
    quote = models.TextField()
    section = models.CharField(max_length=200, blank=True)
    state = models.CharField(max_length=15, choices=State.choices)
    reason = models.CharField(max_length=200, blank=True)  # why no more of it was found
    # Whether the words near the number say so too; else they are the model's reading.
    metric_near = models.BooleanField(default=False)
    direction_near = models.BooleanField(default=False)
    # {detail: phrases of it that the paper does not give}: these are the model's reading as well.
    not_given = models.JSONField(default=dict)
    # One passage or cell gives subject, metric, setting and value together.
    assigned = models.BooleanField(default=True)
    contradicted_by = models.TextField(blank=True)  # the paper's sentence that says otherwise

    class Meta:
        ordering = ("position",)
        constraints = [
            models.UniqueConstraint(fields=["summary", "position"], name="a_place_once_a_summary")
        ]

    @property
    def key(self) -> str:
        """The subject of a correction of it, the same in every summary that claims it."""
        return f"{self.value} {self.unit}: {self.quote}"

    @property
    def verified(self) -> bool:
        """True where number and unit were found, and said of the same: else it gets no verdict."""
        return self.state == self.State.UNIT and self.assigned and not self.contradicted_by

    @property
    def in_doubt(self) -> bool:
        """True where anything of it was not found in the paper, or is said otherwise there."""
        return self.state != self.State.UNIT or bool(self.contradicted_by or self.not_given)


class ServerCapability(models.Model):
    """The structured output that a model on a server honours, probed once."""

    class Mode(models.TextChoices):
        SCHEMA = "json_schema", "JSON schema"
        OBJECT = "json_object", "JSON object"
        PROMPT = "prompt", "prompt only"

    base_url = models.CharField(max_length=300)
    model = models.CharField(max_length=128)
    mode = models.CharField(max_length=11, choices=Mode.choices)
    # The longest prompt that it reads whole, once one was too long.
    prompt_characters = models.PositiveIntegerField(null=True, blank=True)
    context = models.PositiveIntegerField(null=True, blank=True)  # tokens, where the server says it
    takes_bounds = models.BooleanField(default=False)  # lengths of texts and lists in a schema
    slots = models.PositiveSmallIntegerField(null=True, blank=True)  # requests at once
    probed_at = models.DateTimeField(auto_now=True)

    class Meta:
        verbose_name_plural = "server capabilities"
        constraints = [models.UniqueConstraint(fields=["base_url", "model"], name="probed_once")]

    def __str__(self) -> str:
        return f"{self.model}: {self.mode}"


class ModelCall(models.Model):
    """A request to a model, written before it is sent: what a killed worker spent counts."""

    summary = models.ForeignKey(  # none: a trial
        Summary, on_delete=models.CASCADE, related_name="calls", null=True, blank=True
    )
    day = models.DateField(db_index=True)
    model = models.CharField(max_length=128)
    tokens_in = models.PositiveIntegerField()  # an estimate until the answer says better
    tokens_out = models.PositiveIntegerField()
    settled = models.BooleanField(default=False)
    error = models.CharField(max_length=200, blank=True)
    at = models.DateTimeField(auto_now_add=True)

    def __str__(self) -> str:
        return f"{self.model} {self.day} {self.tokens_in}+{self.tokens_out}"
