"""What pages, feeds and the admin read of summaries."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db.models import Count, Q, QuerySet
from django.template.loader import render_to_string
from django.utils import timezone

from webapp.papers.models import Paper
from webapp.ui.markup import sanitise_blocks

from .client import Server
from .extract import Reported, key_sentences, reported_numbers
from .models import Claim, FullText, Summary

State = Summary.State


@dataclass(frozen=True)
class Outline:
    """What rules alone take from the abstract, shown where no model's summary stands."""

    sentences: list[str]
    numbers: list[Reported]

    @staticmethod
    def of(paper: Paper) -> Outline:
        """The key sentences and the reported numbers of a paper's abstract."""
        return Outline(key_sentences(paper.abstract), reported_numbers(paper.abstract))


@dataclass(frozen=True)
class PaperSummaryView:
    """All that a paper's page says of its summary."""

    configured: bool  # a model is configured
    summary: Summary | None  # the best there is: done, else the latest state
    claims: list[Claim]
    outline: Outline | None  # instead of a summary, where none is done

    @property
    def under_way(self) -> bool:
        """Whether a summary waits or runs: the page asks again."""
        return self.summary is not None and self.summary.state in {State.WAITING, State.RUNNING}

    @property
    def unverified_claims(self) -> int:
        """How many claims were not found in the text."""
        return sum(not claim.verified for claim in self.claims)

    @property
    def read(self) -> str:
        """What the model read, in words: "the first 60 % of the full text (HTML)"."""
        if not self.summary or not self.summary.text_source:
            return ""
        name = FullText.Source(self.summary.text_source).label
        share = self.summary.text_share
        return name if share > 0.995 else f"the first {share:.0%} of {name}"


def of_paper(paper: Paper, language: str = "en") -> PaperSummaryView:
    """The newest done summary of a paper in a language; else the state of the newest; else none."""
    known = list(
        Summary.objects.filter(paper=paper, language=language).order_by("-version", "-id")[:10]
    )
    done = [s for s in known if s.state == State.DONE]
    summary = next(iter(done or known), None)
    return PaperSummaryView(
        configured=Server.configured() is not None,
        summary=summary,
        claims=list(summary.claims.all()) if summary else [],
        outline=None if done else Outline.of(paper),
    )


def done_lately() -> QuerySet[Summary]:
    """The summaries done in the last two days, with what a card says of them."""
    since = timezone.now() - timedelta(days=2)
    return Summary.objects.filter(state=State.DONE, finished_at__gte=since).defer("content")


def details(summary: Summary) -> str:
    """A done summary with its claims as a feed's content holds it: sanitised HTML."""
    claims = render_to_string("summaries/feed_claims.html", {"claims": summary.claims.all()})
    return sanitise_blocks(summary.html + claims)


@dataclass(frozen=True)
class BatchProgress:
    """How far the summaries of some papers are."""

    waiting: int
    running: int
    done: int
    failed: int
    reason: str  # why those that wait do, where something holds them up
    next_at: datetime | None

    @property
    def total(self) -> int:
        """All that were asked for."""
        return self.waiting + self.running + self.done + self.failed


def progress(paper_ids: Iterable[int], language: str = "en") -> BatchProgress:
    """The states of the latest summaries asked for these papers."""
    asked = Summary.objects.filter(paper_id__in=list(paper_ids), language=language)
    counts = asked.aggregate(
        **{state.value: Count("paper_id", filter=Q(state=state), distinct=True) for state in State}
    )
    held = asked.filter(state=State.WAITING).exclude(not_before=None).order_by("not_before").first()
    return BatchProgress(
        **counts, reason=held.reason if held else "", next_at=held.not_before if held else None
    )
