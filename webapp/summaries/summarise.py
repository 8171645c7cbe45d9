"""One summary from waiting to done: read the paper, ask the model, check the answer against it."""

import logging
from datetime import datetime, time, timedelta
from functools import partial
from typing import Any

from django.conf import settings
from django.db import transaction
from django.utils import timezone

from webapp.claims.grounding import GroundTruth

from . import budget, capability, queue
from .answer import ask_for_summary, question
from .client import BusyError, ModelError, RefusedError, Server
from .fulltext import NotYetError, full_text
from .models import Claim, FullText, Summary
from .render import render_summary
from .schema import ClaimedNumber, PaperSummary
from .wording import direction_is_near, metric_is_near

log = logging.getLogger(__name__)
State = Summary.State


def summarise(summary_id: int) -> str:
    """Run one waiting summary, if it is still waiting; its state afterwards.

    Every outcome ends in a state that the page can show: failures of the model, its server or arXiv
    are not raised, and no other paper is affected.
    """
    server = Server.configured()
    summary = queue.take(summary_id) if server else None
    if server is None or summary is None:
        return "not taken"
    now = timezone.now()
    try:
        with queue.keep_lease(summary):
            _run(summary, server)
    except NotYetError as error:
        queue.postpone(summary, str(error), now + timedelta(minutes=15))
    except budget.SpentError as error:
        tomorrow = datetime.combine(now.date() + timedelta(days=1), time(0, 1), tzinfo=now.tzinfo)
        queue.postpone(summary, str(error), tomorrow)
    except BusyError as error:
        wait = error.wait if error.wait is not None else 30.0 * 4 ** (summary.attempt - 1)
        queue.put_back(summary, str(error), now + timedelta(seconds=wait))
    except ModelError as error:
        if isinstance(error, RefusedError) and error.status in {400, 422}:
            capability.forget(server)
        queue.finish(summary, State.FAILED, str(error))
    except Exception as error:
        # A bug in Assay must not leave the page saying "running" for ever.
        log.exception("summary %s failed", summary_id)
        queue.finish(summary, State.FAILED, f"an error of Assay's own: {type(error).__name__}")
        raise
    return str(Summary.objects.values_list("state", flat=True).get(id=summary_id))


def _run(summary: Summary, server: Server) -> None:
    paper = summary.paper
    if paper.version != summary.version:
        queue.finish(summary, State.FAILED, f"version {paper.version} has replaced this one")
        return
    kept = full_text(paper)
    given = _beginning(kept.text)
    share = kept.share * len(given) / max(len(kept.text), 1)
    mode = capability.mode_of(server)

    read = FullText.Source(kept.source).read(share)
    messages = question(paper.title, given, read, summary.language)
    answer = ask_for_summary(partial(budget.ask, summary, server), mode, messages)
    truth = GroundTruth(f"{paper.title}\n{paper.abstract}\n{kept.text}")
    _keep(summary, answer, truth, text_source=kept.source, text_share=share)


def _beginning(text: str) -> str:
    """As much of a text as the settings allow the model to read, cut between sentences."""
    given: str = text[: settings.SUMMARY_CHARACTERS]
    if len(given) == len(text):
        return text
    return given[: max(given.rfind("\n"), given.rfind(". ")) + 1] or given


def _keep(summary: Summary, answer: PaperSummary, truth: GroundTruth, **read: Any) -> None:
    claims = [_claim(summary, n, claimed, truth) for n, claimed in enumerate(answer.claims)]
    columns, marked = render_summary(answer, truth, summary.language)
    with transaction.atomic():
        held = queue.finish(
            summary,
            State.DONE,
            content=answer.model_dump(),
            unverified=marked + sum(c.state == Claim.State.MISSING for c in claims),
            **columns,
            **read,
        )
        if held:
            Claim.objects.bulk_create(claims)


def _claim(summary: Summary, position: int, claimed: ClaimedNumber, truth: GroundTruth) -> Claim:
    found = truth.ground(claimed.value, claimed.unit, claimed.quote)
    return Claim(
        summary=summary,
        position=position,
        state=found.state,
        reason=found.reason,
        metric_near=metric_is_near(claimed.metric, found.context),
        direction_near=direction_is_near(claimed.direction, claimed.metric, found.context),
        **claimed.model_dump(),
    )
