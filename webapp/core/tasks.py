"""Tasks sent by name, so that the site imports no worker. The broker only carries.

Celery is imported when a task is sent: most commands send none.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING

from assay_common.redis_broker import CONTROL_EXCHANGE, configure

if TYPE_CHECKING:
    from celery import Celery

ANSWER_SECONDS = 2.0  # for which a reader's request waits for Redis

log = logging.getLogger(__name__)


@cache
def app() -> Celery:
    """The Celery application that the site sends with; it runs no tasks."""
    from celery import Celery  # noqa: PLC0415 - half a second

    made = Celery("assay-site", set_as_current=False)
    made.config_from_object("django.conf:settings", namespace="CELERY")
    configure(made)
    made.conf.control_exchange = CONTROL_EXCHANGE
    made.conf.broker_transport_options = {
        # One retry, at once, in case Redis was restarted; kombu's default policy takes 6 s.
        "max_retries": 1,
        "interval_start": 0,
        "interval_max": 0,
        # A Redis that has stopped, or its machine, accepts a connection and never answers.
        "socket_timeout": ANSWER_SECONDS,
        "socket_connect_timeout": ANSWER_SECONDS,
    }
    return made


def send(task: str, args: list[object], queue: str | None = None, *, lost: str) -> bool:
    """Put a task on a queue, by default its own; False if the broker is down.

    `lost` describes the work that then does not happen, for the log.
    """
    with _broker_errors_logged(lost):
        app().send_task(task, args=args, queue=queue, retry=False)
        return True
    return False


def send_if_room(task: str, args: list[object], most: int, *, lost: str) -> bool:
    """Send what strangers may cause, as `send` does; False if `most` tasks wait in its queue."""
    with _broker_errors_logged(lost), app().producer_or_acquire() as producer:
        queue = app().amqp.router.route({}, task)["queue"].name
        declare = producer.connection.ensure(  # its answer has the queue's length
            producer, lambda: producer.channel.queue_declare(queue), max_retries=1, interval_start=0
        )
        if (waiting := declare().message_count) < most:
            app().send_task(task, args=args, producer=producer, retry=False)
            return True
        log.warning("Queue full, %s: %d tasks wait already", lost, waiting)
    return False


def broadcast(command: str, arguments: dict[str, object], *, lost: str) -> None:
    """Send a control command to every bench worker."""
    with _broker_errors_logged(lost):
        app().control.broadcast(command, arguments, reply=False)


@contextmanager
def _broker_errors_logged(lost: str) -> Iterator[None]:
    from kombu.exceptions import OperationalError  # noqa: PLC0415 - with Celery

    try:
        yield
    except (OperationalError, OSError) as error:
        log.warning("Broker unreachable, %s: %s", lost, error)
