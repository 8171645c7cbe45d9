"""Reads of summaries for pages and feeds."""

from collections import Counter
from dataclasses import dataclass
from datetime import date
from typing import Any

from django.db.models import Count, Q, QuerySet
from django.template.loader import render_to_string
from django.utils import timezone
from django.utils.translation import gettext, ngettext

from webapp.claims.corrections import Kind, corrected, quotes_of
from webapp.claims.extraction.quotes import Quote
from webapp.papers.models import Paper
from webapp.ui.markup import sanitise_blocks

from .models import Claim, FullText, Summary

State = Summary.State


@dataclass(frozen=True)
class PaperSummaryView:
    """Everything that a paper's page shows about its summary."""

    language: str
    languages: list[str]  # those that the paper has summaries in
    summary: Summary | None  # the best there is: done, else the latest state
    claims: list[Claim]
    quotes: tuple[Quote, ...]  # of the abstract: they stay, whatever a model says

    @property
    def has_gist(self) -> bool:
        """True if a finished summary has a first sentence that may be shown."""
        summary = self.summary
        return bool(
            summary and summary.state == State.DONE and summary.gist and not summary.withheld
        )

    @property
    def under_way(self) -> bool:
        """True if a summary waits or runs: the page asks again."""
        return self.summary is not None and self.summary.state in {State.WAITING, State.RUNNING}

    @property
    def claims_in_doubt(self) -> int:
        """Return the number of claims that the text does not give whole, or gives otherwise."""
        return sum(claim.in_doubt for claim in self.claims)

    @property
    def has_numbers(self) -> bool:
        """True if a finished summary has a number that could have been looked up."""
        shown = f"{self.summary.gist} {self.summary.html}" if self.summary else ""
        return bool(self.claims) or any(char.isdigit() for char in shown)

    @property
    def names_passages(self) -> bool:
        """True if each sentence names its passages; summaries before 0.2 do not."""
        shown = self.summary.html if self.summary else ""
        return "<details>" in shown or "<small>" in shown

    @property
    def waits_for(self) -> str:
        """Return what a waiting summary waits for: a time, its turn, or a worker."""
        if self.summary is None:
            return ""
        if self.summary.reason:
            return gettext("Waiting: %(reason)s.") % {"reason": self.summary.reason}
        running = Summary.objects.filter(state=State.RUNNING).count()
        waiting = Summary.objects.filter(state=State.WAITING, not_before=None)
        earlier = waiting.filter(requested_at__lt=self.summary.requested_at).count()
        if not running and not earlier:
            return gettext("Waiting for the worker that makes summaries.")
        if not earlier:
            return gettext("Next in the queue.")
        return ngettext(
            "In the queue: %(count)d summary comes first.",
            "In the queue: %(count)d summaries come first.",
            earlier,
        ) % {"count": earlier}

    @property
    def read(self) -> str:
        """Return the part that the model read: "the first 60 % of the full text (HTML)"."""
        if not self.summary or not self.summary.text_source:
            return ""
        return FullText.Source(self.summary.text_source).read(self.summary.text_share)

    @property
    def unread(self) -> int:
        """The percentage of the question that the server left unread, where it cut it off."""
        return round(100 * (1 - self.summary.read_share)) if self.summary else 0


def summary_view(paper: Paper, language: str = "") -> PaperSummaryView:
    """The newest done summary of a paper in a language, one that says something before one that
    does not; else the state of the newest; else none.

    Where the requested language has no summary, English is preferred to any other.
    """
    summaries = list(Summary.objects.filter(paper=paper).order_by("-version", "-id")[:20])
    languages = sorted({row.language for row in summaries})
    if language not in languages and (languages or language not in Summary.Language):
        language = "en" if "en" in languages or not languages else languages[0]
    summaries = [row for row in summaries if row.language == language]
    done = [row for row in summaries if row.state == State.DONE]
    done.sort(key=lambda row: bool(row.withheld))
    summary = next(iter(done or summaries), None)
    return PaperSummaryView(
        language=language,
        languages=languages,
        summary=summary,
        claims=shown_claims(summary, paper) if summary else [],
        quotes=quotes_of(paper),
    )


def by_model() -> list[dict[str, Any]]:
    """The models that have summarised, with what became of it, those with most summaries first.

    Of each: `ended` summaries, of these `done` that are used, `withheld` and `failed`, `used` as a
    percentage of all; `claimed` numbers, of these `in_doubt`, of which something was not found.
    """
    is_done, sure = Q(state=State.DONE), Q(claims__state=Claim.State.UNIT)
    sure &= Q(claims__not_given={}, claims__contradicted_by="")
    ended = Summary.objects.filter(state__in=[State.DONE, State.FAILED]).values("model")
    counted = ended.annotate(
        ended=Count("id", distinct=True),
        done=Count("id", filter=is_done & Q(withheld=""), distinct=True),
        withheld=Count("id", filter=is_done & ~Q(withheld=""), distinct=True),
        failed=Count("id", filter=Q(state=State.FAILED), distinct=True),
        claimed=Count("claims", distinct=True),
        sure=Count("claims", filter=sure, distinct=True),
    )
    return [
        row
        | {"used": round(100 * row["done"] / row["ended"])}
        | {"in_doubt": row["claimed"] - row["sure"]}
        for row in counted.order_by("-ended", "model")
    ]


def shown_claims(summary: Summary, paper: Paper) -> list[Claim]:
    """Return the claims of a paper's summary that no reader has hidden."""
    hidden = corrected(paper, Kind.CLAIM)
    return [claim for claim in summary.claims.all() if claim.key not in hidden]


def shown_summaries() -> QuerySet[Summary]:
    """The summaries that cards, mail and feeds may show, the last first."""
    done = Summary.objects.filter(state=State.DONE, withheld="").exclude(gist="")
    return done.order_by("-finished_at", "-pk")


def details(summary: Summary, paper: Paper) -> str:
    """A done summary with its claims as a feed's content holds it: sanitised HTML."""
    shown = shown_claims(summary, paper)
    claims = render_to_string("summaries/feed_claims.html", {"claims": shown})
    return sanitise_blocks(summary.html + claims)


@dataclass(frozen=True)
class DaySummaries:
    """Progress of one day's summaries: the newest of each paper and language."""

    rows: list[Summary]

    @property
    def counts(self) -> list[tuple[str, int]]:
        """Every state that occurs, with its number, in the order of a summary's life."""
        counted = Counter(row.state for row in self.rows)
        return [(state.value, counted[state]) for state in State if counted[state]]

    @property
    def ended(self) -> int:
        """Return the number that are done or have failed."""
        return sum(row.state in {State.DONE, State.FAILED} for row in self.rows)

    @property
    def under_way(self) -> bool:
        """True if a summary waits or runs: the page asks again."""
        return self.ended < len(self.rows)

    @property
    def held(self) -> Summary | None:
        """The first to be tried again of the summaries that were postponed."""
        waiting = [row for row in self.rows if row.state == State.WAITING and row.not_before]
        return min(waiting, key=lambda row: row.not_before or timezone.now(), default=None)


def day_summaries(day: date) -> DaySummaries:
    """The requested summaries of the papers that were announced on a day."""
    summaries = Summary.objects.filter(paper__announcements__listing__date=day).distinct()
    summaries = summaries.select_related("paper").defer(
        "content", "html", "gist_html", "paper__abstract"
    )
    newest: dict[tuple[int, str], Summary] = {}
    for row in summaries.order_by("paper__arxiv_id", "language", "-version", "-id"):
        newest.setdefault((row.paper_id, row.language), row)
    return DaySummaries(list(newest.values()))
