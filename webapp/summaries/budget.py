"""The daily budget of requests and tokens for models."""

import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from django.conf import settings
from django.db.models import Count, F, Sum
from django.utils import timezone

from webapp.core.database import exclusive

from .client import AwayError, Message, Reply, Server
from .models import ModelCall, Summary

SECONDS_BETWEEN = 1.0  # between two notes of how far an answer is


class SpentError(Exception):
    """The day's budget is used up; the message says which and how much."""


def spent_today() -> tuple[int, int]:
    """Requests and tokens used since midnight UTC, those under way included."""
    today = ModelCall.objects.filter(day=timezone.now().date()).aggregate(
        calls=Count("id"), tokens=Sum(F("tokens_in") + F("tokens_out"), default=0)
    )
    return today["calls"], today["tokens"]


def ask(
    summary: Summary | None,
    server: Server,
    messages: list[Message],
    response_format: dict[str, Any] | None,
    on_progress: Callable[[int], None] = lambda _: None,
) -> Reply:
    """Return the model's reply within the day's budget, which is charged before the request.

    `on_progress` is called at most every SECONDS_BETWEEN with the number of tokens written; an
    exception from it ends the answer. Raises SpentError if the budget has no room or the answer
    has used it up, or the errors of `Server.ask`. After an error, as after a kill, the estimate
    stays charged; otherwise the server's own count replaces it. A server that was unreachable
    costs nothing.
    """
    call = _reserve(summary, server.model, sum(len(m["content"]) for m in messages) // 3)
    last = time.monotonic()

    def listen(tokens: int) -> None:
        nonlocal last
        if time.monotonic() - last < SECONDS_BETWEEN:
            return
        last = time.monotonic()
        if tokens > call.tokens_out:
            call.tokens_out = tokens
            call.save(update_fields=["tokens_out"])
            if spent_today()[1] > settings.SUMMARY_DAILY_TOKENS:
                raise _no_tokens()
        on_progress(tokens)

    requests = 0

    def count() -> None:
        """Write down each further request: one without a stream, or without a system role."""
        nonlocal requests
        requests += 1
        if requests > 1:
            _reserve(summary, server.model, 0)

    try:
        reply = replace(server, before_request=count).ask(messages, response_format, listen)
    except AwayError:
        call.delete()
        raise
    except Exception as error:
        call.error = str(error)[:200]
        call.save(update_fields=["error"])
        raise
    if reply.tokens_in or reply.tokens_out:
        call.tokens_in, call.tokens_out = reply.tokens_in, reply.tokens_out
    else:
        call.tokens_out = len(reply.text) // 3
    call.settled = True
    call.save(update_fields=["tokens_in", "tokens_out", "settled"])
    return reply


@exclusive("summaries.budget")
def _reserve(summary: Summary | None, model: str, estimate: int) -> ModelCall:
    calls, tokens = spent_today()
    if calls >= settings.SUMMARY_DAILY_CALLS:
        raise SpentError(
            f"today's {settings.SUMMARY_DAILY_CALLS} requests to the model are used up"
        )
    if tokens + estimate > settings.SUMMARY_DAILY_TOKENS:
        raise _no_tokens()
    return ModelCall.objects.create(
        summary=summary,
        day=timezone.now().date(),
        model=model,
        tokens_in=estimate,
        tokens_out=estimate // 10,
    )


def _no_tokens() -> SpentError:
    return SpentError(f"today's {settings.SUMMARY_DAILY_TOKENS:,} tokens are used up")
