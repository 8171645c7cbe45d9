"""One summary from waiting to done: read the paper, ask the model, check the answer against it."""

import logging
from collections.abc import Iterator, Sequence
from contextlib import suppress
from datetime import datetime, time, timedelta
from typing import Any

from django.conf import settings
from django.db import transaction
from django.utils import timezone
from django.utils.translation import gettext_noop as _
from pydantic import ValidationError

from webapp.claims.tables.shown import ShownTable, tables_of
from webapp.papers.models import Paper
from webapp.summaries.details import direction_is_near, metric_is_near

from . import budget, capability, quality, queue
from .agreement import check_claim, check_statement
from .answer import ask_for_summary, question
from .client import (
    AwayError,
    BusyError,
    Message,
    ModelError,
    RefusedError,
    Reply,
    Server,
    TooLongError,
)
from .details import find_section, not_given
from .fulltext import NotYetError, abstract_alone, full_text
from .models import Claim, FullText, Summary
from .paper_text import PaperText
from .render import render_summary
from .schema import ClaimedNumber, PaperSummary

log = logging.getLogger(__name__)
State = Summary.State
AWAY = timedelta(seconds=20)  # until a server that is not there is asked again
COMPARED = 50  # answers about other papers, whose prose must be another
LEAST_TEXT = 1_000  # characters of a paper that are sent whatever a server was seen to take


class _CancelledError(Exception):
    """The summary that is being made is no longer wanted of this worker."""


def summarise(summary_id: int) -> str:
    """Run one waiting summary, if it is still waiting; its state afterwards.

    Every outcome ends in a state that the page can show: failures of the model, its server or arXiv
    are not raised, and no other paper is affected.
    """
    server = Server.configured()
    summary = queue.take(summary_id, capability.concurrency(server)) if server else None
    if server is None or summary is None or not queue.adopt(summary, server):
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
    except _CancelledError:
        pass  # by a reader, or another worker has it
    except AwayError as error:
        # Nothing was asked of it. The others that wait for it need not find that out one by one.
        soon = now + (timedelta(seconds=error.wait) if error.wait else AWAY)
        queue.postpone(summary, str(error), soon)
        queue.hold(server.model, str(error), soon)
    except BusyError as error:
        wait = error.wait if error.wait is not None else 30.0 * 4 ** (summary.attempt - 1)
        queue.put_back(summary, str(error), now + timedelta(seconds=wait))
    except ModelError as error:
        is_refused = isinstance(error, RefusedError) and error.status in {400, 422}
        if is_refused and not isinstance(error, TooLongError):
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
    try:
        source = full_text(paper)
    except NotYetError as error:
        if not error.is_away:
            raise
        source = abstract_alone(paper, str(error))
    was_probed = capability.stored(server) is not None
    try:
        answer, read = _ask(summary, server, source)
    except TooLongError:  # now it is known how much the server takes
        answer, read = _ask(summary, server, source)
    except RefusedError as error:
        if error.status not in {400, 422} or not was_probed:
            raise
        capability.forget(server)  # it no longer takes what it took
        answer, read = _ask(summary, server, source)
    _keep(summary, answer, _truth(paper, source), text_source=source.source, **read)


def _ask(
    summary: Summary, server: Server, source: FullText
) -> tuple[PaperSummary, dict[str, float]]:
    """The model's summary of as much of a text as it may and can read, and which shares it read.

    Raises TooLongError, remembered, or what `ask_for_summary` raises.
    """

    def on_progress(tokens: int) -> None:
        if not queue.note_written(summary, tokens):
            raise _CancelledError

    mode = capability.find_mode(
        server, lambda asked, form: budget.ask(summary, server, asked, form)
    )
    server = capability.fitted(server)
    title, language = summary.paper.title, summary.language
    enforced = mode == capability.Mode.SCHEMA
    empty = question(title, "", "", language, enforced=enforced)
    around = sum(len(message["content"]) for message in empty)
    most = capability.prompt_characters(server)
    given = _beginning(source.text, most, around)
    share = source.share * len(given) / max(len(source.text), 1)
    part = FullText.Source(source.source).read(share)
    messages = question(title, given, part, language, enforced=enforced)
    shares = {"text_share": share, "read_share": 1.0}

    def ask(messages: list[Message], response_format: dict[str, Any] | None) -> Reply:
        prompt = "\n".join(message["content"] for message in messages)
        try:
            reply = budget.ask(summary, server, messages, response_format, on_progress)
        except TooLongError as error:
            fits = len(prompt) * error.share * (1 - capability.FOR_THE_ANSWER)
            capability.learn_prompt(server, fits)
            raise
        part = capability.read_share(reply.tokens_in, prompt)
        if part < 1:
            capability.learn_prompt(server, reply.tokens_in * capability.LEAST_A_TOKEN)
            shares["read_share"] = min(shares["read_share"], part)
        return reply

    return ask_for_summary(ask, mode, messages, capability.summary_schema(server), most), shares


def _beginning(text: str, prompt: int | None, around: int) -> str:
    """The beginning of a text: as much as settings and model allow, cut between sentences.

    `prompt` is the longest prompt that the model reads, of which `around` characters are needed.
    """
    most: int = settings.SUMMARY_CHARACTERS
    if prompt is not None:
        most = max(min(most, prompt - around), LEAST_TEXT)
    given = text[:most]
    if len(given) == len(text):
        return text
    return given[: max(given.rfind("\n"), given.rfind(". ")) + 1] or given


def _keep(summary: Summary, answer: PaperSummary, truth: PaperText, **read: Any) -> None:
    tables = tables_of(summary.paper).all
    claims = [_claim(summary, n, claim, truth, tables) for n, claim in enumerate(answer.claims)]
    checked = _checked(answer, claims, truth, summary, tables)
    with transaction.atomic():
        held = queue.finish(summary, State.DONE, content=answer.model_dump(), **checked, **read)
        if held:
            summary.claims.all().delete()  # of an earlier answer of this model
            Claim.objects.bulk_create(claims)


def _checked(
    answer: PaperSummary,
    claims: Sequence[Claim],
    truth: PaperText,
    summary: Summary,
    tables: Sequence[ShownTable],
) -> dict[str, Any]:
    """Return the columns of a summary that depend on what the paper says."""
    columns, marked = render_summary(answer, truth, summary.language, tables)
    return {
        **columns,
        "unverified": marked + sum(claim.in_doubt for claim in claims),
        "withheld": _why_withheld(answer, claims, truth, summary, tables),
    }


def _why_withheld(
    answer: PaperSummary,
    claims: Sequence[Claim],
    truth: PaperText,
    summary: Summary,
    tables: Sequence[ShownTable],
) -> str:
    """Return the reason why cards, mail and feeds hide an answer, or ""."""
    agreement = check_statement(answer.gist, truth, tables)
    if agreement.otherwise:
        return _("the paper contradicts its first sentence")
    if not agreement.is_found and summary.language == "en":
        return _("the paper does not give the numbers of its first sentence in this way")
    if quality.shared_prose(answer, _others(summary)):
        return _("it says the same about another paper")
    return quality.useless(answer, claims, summary.paper.abstract, summary.language)


def _others(summary: Summary) -> Iterator[PaperSummary]:
    """Yield the last answers of the same model about other papers before this summary's."""
    others = Summary.objects.filter(
        state=State.DONE, model=summary.model, language=summary.language
    ).exclude(paper=summary.paper_id)
    if summary.state == State.DONE:
        others = others.filter(finished_at__lt=summary.finished_at)
    for content in others.order_by("-finished_at").values_list("content", flat=True)[:COMPARED]:
        with suppress(ValidationError):
            yield PaperSummary.model_validate(content)


def check_again(paper: Paper, /) -> None:
    """Check the summaries of a paper again, after a correction of its tables."""
    summaries = Summary.objects.filter(paper=paper, version=paper.version, state=State.DONE)
    if not summaries:
        return
    source = FullText.objects.filter(paper=paper, version=paper.version).first()
    truth = _truth(paper, source or abstract_alone(paper, ""))
    tables = tables_of(paper).all
    for summary in summaries:
        claims = list(summary.claims.all())
        for claim in claims:
            fields = {name: getattr(claim, name) for name in ClaimedNumber.model_fields}
            agreement = check_claim(ClaimedNumber.model_validate(fields), truth, tables)
            claim.assigned, claim.contradicted_by = agreement.is_found, agreement.otherwise
        Claim.objects.bulk_update(claims, ["assigned", "contradicted_by"])
        with suppress(ValidationError):  # of an earlier form
            answer = PaperSummary.model_validate(summary.content)
            checked = _checked(answer, claims, truth, summary, tables)
            Summary.objects.filter(pk=summary.pk, state=State.DONE).update(**checked)


def _truth(paper: Paper, source: FullText) -> PaperText:
    sections = [(section["title"], section["text"]) for section in source.sections]
    return PaperText(paper.title, paper.abstract, sections)


def _claim(
    summary: Summary,
    position: int,
    claimed: ClaimedNumber,
    truth: PaperText,
    tables: Sequence[ShownTable],
) -> Claim:
    grounding = truth.ground(claimed.value, claimed.unit, claimed.quote)
    missing = not_given(claimed, truth)
    agreement = check_claim(claimed, truth, tables)
    return Claim(
        summary=summary,
        position=position,
        state=grounding.state,
        reason=grounding.reason,
        metric_near="metric" not in missing and metric_is_near(claimed.metric, grounding.context),
        direction_near=direction_is_near(claimed.direction, claimed.metric, grounding.context),
        not_given=missing,
        assigned=agreement.is_found,
        contradicted_by=agreement.otherwise,
        **claimed.model_dump() | {"section": find_section(claimed, truth)},
    )
