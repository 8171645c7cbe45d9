"""The day's batch: what is summarised unasked, and which tasks are sent for it."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from webapp.papers.models import Paper

from . import queue
from .client import Server


def request_and_send(wanted: Iterable[tuple[str, list[int]]], send: Callable[[int], object]) -> int:
    """Ask for what is wanted, put back what was lost, and send what may run; how many were sent.

    `wanted` is (language, paper ids). Idempotent: a summary sent twice is taken once, and what is
    not taken is sent again by the next call. Without a model nothing is done.
    """
    server = Server.configured()
    if server is None:
        return 0
    for language, paper_ids in wanted:
        queue.request(Paper.objects.filter(id__in=paper_ids), language, server)
    queue.sweep()
    ready = queue.ready()
    for summary_id in ready:
        send(summary_id)
    return len(ready)
