"""Profiles and their digests, and what is learned from a reader."""

from collections.abc import Sequence
from datetime import datetime
from functools import cached_property, lru_cache
from secrets import token_urlsafe
from typing import TYPE_CHECKING, Any

from django.contrib.auth.models import AnonymousUser, User
from django.db import models
from django.db.models import Q, UniqueConstraint
from django.utils.translation import gettext_lazy as _

from webapp.claims.corrections import headline_of
from webapp.claims.extraction.quotes import Quote
from webapp.digests.packed import PackedJSONField
from webapp.digests.scoring.terms import normalise, term
from webapp.learning.preferences import LEARNED
from webapp.papers.models import Paper
from webapp.papers.proposal import what_it_did
from webapp.summaries.models import Summary
from webapp.ui.markup import plain, render

if TYPE_CHECKING:
    from django.db.models import QuerySet


def new_feed_key() -> str:
    """The secret in the addresses of a private profile's feeds: 128 random bits."""
    return token_urlsafe(16)


class Profile(models.Model):
    """A named interest. The one without an owner and with `is_site` is the site's own.

    A reader's profile is private until they publish it: what it learns, shows and is named comes
    from what they save. One without an owner is the operator's, and public.
    """

    class Matching(models.TextChoices):
        RARITY = "rarity", _("whole words and phrases, rare ones count more")
        TOKEN = "token", _("whole words and phrases, your weights")
        SUBSTRING = "substring", _("parts of words, as in arxiv_rss_bot")

    class Ranking(models.TextChoices):
        RULES = "rules", _("keywords")
        BOTH = "both", _("keywords and papers I saved")
        LEARNED = "learned", _("papers I saved")

    slug = models.SlugField(max_length=64, unique=True)
    name = models.CharField(max_length=80)
    owner = models.ForeignKey(
        User, null=True, blank=True, on_delete=models.CASCADE, related_name="profiles"
    )
    is_site = models.BooleanField(default=False)
    is_published = models.BooleanField(default=False)  # by its owner
    feed_key = models.CharField(max_length=32, default=new_feed_key)  # while it is private
    categories = models.JSONField(default=list)  # [str]
    # [{"keyword", "weight", "title_bonus", "frequency"}]
    keywords = models.JSONField(default=list)
    counted_on = models.DateField(null=True, blank=True)  # when the frequencies were counted
    exclude = models.JSONField(default=list)  # [str]
    announce_types = models.JSONField(default=list)  # [AnnounceType]
    matching = models.CharField(max_length=9, choices=Matching.choices, default=Matching.TOKEN)
    ranking = models.CharField(max_length=7, choices=Ranking.choices, default=Ranking.RULES)
    min_score = models.FloatField(default=0.0)
    # Whose likes count: "" for everything the reader keeps, else "list:<key>".
    learn_from = models.CharField(max_length=60, blank=True)
    size = models.PositiveSmallIntegerField(default=30)
    language = models.CharField(
        max_length=2, choices=Summary.Language.choices, default=Summary.Language.ENGLISH
    )
    created_at = models.DateTimeField(auto_now_add=True)
    updated_at = models.DateTimeField(auto_now=True)

    class Meta:
        ordering = ("-is_site", "name")
        constraints = [
            UniqueConstraint(
                fields=["is_site"], condition=models.Q(is_site=True), name="one_site_profile"
            )
        ]

    def __str__(self) -> str:
        return self.name

    @classmethod
    def visible_to(cls, reader: User | AnonymousUser, key: str = "") -> "QuerySet[Profile]":
        """The profiles that a reader may see; with the key of its feeds, a private one too."""
        seen = Q(owner=None) | Q(is_published=True)
        if reader.pk is not None:
            seen |= Q(owner=reader.pk)
        if key:
            seen |= Q(feed_key=key)
        return cls.objects.filter(seen)

    @property
    def is_private(self) -> bool:
        """True if only its owner may see it."""
        return self.owner_id is not None and not self.is_published

    @property
    def feed_query(self) -> str:
        """Query string of its feeds' addresses: the secret key of a private profile."""
        return f"?key={self.feed_key}" if self.is_private else ""


class Digest(models.Model):
    """One profile's day, with how many papers were considered and how many matched."""

    profile = models.ForeignKey(Profile, on_delete=models.CASCADE, related_name="digests")
    date = models.DateField(db_index=True)
    considered = models.PositiveIntegerField(default=0)  # announced in the profile's categories
    matched = models.PositiveIntegerField(default=0)  # passed the profile's rules, or are close
    liked = models.PositiveIntegerField(default=0)  # papers that its ranking is learned from
    fingerprint = models.CharField(max_length=64)  # of everything visible: same, same page
    inputs = models.CharField(max_length=64, default="")  # fingerprint of all its inputs
    changed_at = models.DateTimeField()  # when the fingerprint last changed
    is_sample = models.BooleanField(default=False)

    class Meta:
        ordering = ("-date",)
        constraints = [UniqueConstraint(fields=["profile", "date"], name="one_digest_a_day")]


class DayToBuild(models.Model):
    """A day whose digests are to be built, since its papers changed."""

    date = models.DateField(primary_key=True)
    asked_at = models.DateTimeField()

    class Meta:
        verbose_name_plural = "days to build"


class DigestEntry(models.Model):
    """A paper in a digest, with the reasons for its rank."""

    digest = models.ForeignKey(Digest, on_delete=models.CASCADE, related_name="entries")
    paper = models.ForeignKey(Paper, on_delete=models.CASCADE, related_name="digest_entries")
    rank = models.PositiveSmallIntegerField()
    score = models.FloatField()
    # A lower match, or the nearest of the rest: it stands folded behind the list.
    also_mentioned = models.BooleanField(default=False)
    announce_type = models.CharField(max_length=13)
    version = models.PositiveSmallIntegerField()
    # [{"keyword", "where": ["title", "abstract", "authors"], "points", "place", "rarity"}]
    # (`scoring.rules.Match`); one that is learned also has "closeness", "near" and "near_id"
    # (`learning.preferences`)
    matches = models.JSONField(default=list)
    text_hash = models.CharField(max_length=8)  # of the paper's title and abstract
    changed_at = models.DateTimeField()  # when its content last changed
    # Where `entries.with_summaries` read them. Of the paper's summary in the profile's language:
    # one sentence, plain and sanitised, and when it was written. Of the paper: `Chips.chips`.
    gist = gist_html = ""
    summarised_at: datetime | None = None
    chips: Sequence[dict[str, Any]] = ()
    # Of a further match, whose matches are made when it is shown (`queries.load_texts`).
    keywords: tuple[str, ...] | None = None

    class Meta:
        ordering = ("rank",)
        constraints = [
            UniqueConstraint(fields=["digest", "paper"], name="a_paper_once_a_digest"),
            UniqueConstraint(fields=["digest", "rank"], name="a_rank_once_a_digest"),
        ]

    @property
    def matched_keywords(self) -> set[str]:
        """Keywords that match the paper."""
        if self.keywords is not None:
            return set(self.keywords)
        return {match["keyword"] for match in self.matches}

    @property
    def is_nearest(self) -> bool:
        """True if the entry is folded and has no keyword: it is among the nearest of the rest."""
        return self.also_mentioned and all(
            keyword.startswith(LEARNED) for keyword in self.matched_keywords
        )

    @property
    def sentence(self) -> str:
        """Plain-text line about the paper: its gist, or else a sentence of its abstract."""
        return self.gist or plain(self._said)

    @property
    def quote(self) -> Quote | None:
        """Headline result of the paper, quoted from its abstract; the sentence does not say it."""
        return headline_of(self.paper, self._said)

    @property
    def _said(self) -> str:
        return self.gist or what_it_did(self.paper.abstract, self.paper.title)

    @cached_property
    def title_html(self) -> str:
        """The paper's title with the matches marked: <mark data-k="0">…</mark>."""
        return self._marked("title")

    @cached_property
    def abstract_html(self) -> str:
        """The paper's abstract with the matches marked."""
        return self._marked("abstract", links=True)

    def _marked(self, field: str, *, links: bool = False) -> str:
        substring = bool(self.matches) and (
            self.digest.profile.matching == Profile.Matching.SUBSTRING
        )
        keywords = tuple(
            (number, match["keyword"])
            for number, match in enumerate(self.matches)
            if {"title", "abstract"} & {*match["where"]}
        )
        marked = _marked(getattr(self.paper, field), keywords, substring=substring, links=links)
        html: str = marked or getattr(self.paper, f"{field}_html")
        return html


@lru_cache(1_024)  # the lists of a few days, which are made anew whenever a new day changes them
def _marked(text: str, keywords: Sequence[tuple[int, str]], *, substring: bool, links: bool) -> str:
    """Return a text as HTML with keywords marked by their numbers; "" if it has none of them."""
    text = normalise(text)
    spans = [
        (start, end, number)
        for number, keyword in keywords
        for start, end in term(keyword, substring=substring).spans(text)
    ]
    return render(text, spans, links=links) if spans else ""


class FurtherMatches(models.Model):
    """Papers that matched beyond a digest's size, in order; apart, to keep digests small.

    For a reader's digest of past weeks, which has no entries any more, they include the papers of
    the digest itself (`retention.pack_old`).
    """

    digest = models.OneToOneField(Digest, on_delete=models.CASCADE, related_name="further")
    # [{"paper": primary key, "keywords": [str], and as in DigestEntry: "score", "also_mentioned",
    # "announce_type", "version"}]; of what was an entry "matches" instead of "keywords"
    rows = PackedJSONField(default=list)

    class Meta:
        verbose_name_plural = "further matches"


class Chips(models.Model):
    """The methods a paper concerns, each with its best figure, as cards show them."""

    paper = models.OneToOneField(Paper, on_delete=models.CASCADE, related_name="chips")
    chips = models.JSONField()  # [{"method": slug, "name", "figure"}]


class LearnedModel(models.Model):
    """Linear model of a reader's taste, from papers kept and rejected: all, or a list's."""

    reader = models.ForeignKey(User, on_delete=models.CASCADE, related_name="learned_models")
    source = models.CharField(max_length=60, blank=True)  # as `Profile.learn_from`
    intercept = models.FloatField()
    weights = models.JSONField()  # {word or pair of words: weight}, the largest
    reference = models.JSONField(default=list)  # log-odds of recent papers, ascending
    margin = models.FloatField(default=0.0)  # of saved papers left out of training
    # The papers it was learned from, the latest first (`learning.preferences.packed_examples`).
    examples = models.JSONField(default=dict)
    liked = models.PositiveIntegerField()  # papers it was learned from
    disliked = models.PositiveIntegerField()  # papers marked as not for me
    fingerprint = models.CharField(max_length=64)  # of the examples: same, same model
    trained_at = models.DateTimeField()

    class Meta:
        constraints = [UniqueConstraint(fields=["reader", "source"], name="one_model_a_source")]
