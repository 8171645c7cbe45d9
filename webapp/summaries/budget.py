"""What may be spent on models in a day: a number of requests, and of tokens."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from django.conf import settings
from django.db import transaction
from django.db.models import Count, F, Sum
from django.utils import timezone

from .client import Message, Reply
from .models import ModelCall, Summary


class SpentError(Exception):
    """The day's budget is used up; the message says which and how much."""


def spent_today() -> tuple[int, int]:
    """Requests and tokens used since midnight UTC, those under way included."""
    today = ModelCall.objects.filter(day=timezone.now().date()).aggregate(
        calls=Count("id"), tokens=Sum(F("tokens_in") + F("tokens_out"), default=0)
    )
    return today["calls"], today["tokens"]


@contextmanager
def reserved(summary: Summary, model: str, messages: list[Message]) -> Iterator[ModelCall]:
    """A place in the budget for one request, written down before the request is made.

    Raises SpentError where there is none. `settle` then replaces the estimate; without it, as
    after a kill, the estimate stays.
    """
    estimate = sum(len(m["content"]) for m in messages) // 3
    with transaction.atomic():
        calls, tokens = spent_today()
        if calls >= settings.SUMMARY_DAILY_CALLS:
            raise SpentError(
                f"today's {settings.SUMMARY_DAILY_CALLS} requests to the model are used up"
            )
        if tokens + estimate > settings.SUMMARY_DAILY_TOKENS:
            raise SpentError(f"today's {settings.SUMMARY_DAILY_TOKENS:,} tokens are used up")
        call = ModelCall.objects.create(
            summary=summary,
            day=timezone.now().date(),
            model=model,
            tokens_in=estimate,
            tokens_out=estimate // 10,
        )
    try:
        yield call
    except Exception as error:
        call.error = str(error)[:200]
        call.save(update_fields=["error"])
        raise


def settle(call: ModelCall, reply: Reply) -> None:
    """Write down what a reply really cost, as far as the server counted."""
    if reply.tokens_in or reply.tokens_out:
        call.tokens_in, call.tokens_out = reply.tokens_in, reply.tokens_out
    else:
        call.tokens_out = len(reply.text) // 3
    call.settled = True
    call.save(update_fields=["tokens_in", "tokens_out", "settled"])
