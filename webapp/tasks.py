"""Tasks sent by name, so that the site imports no worker. The broker only carries.

Celery is imported when a task is sent: most commands send none.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import cache, partial
from typing import TYPE_CHECKING

from webapp.redis_broker import CONTROL_EXCHANGE, configure

if TYPE_CHECKING:
    from celery import Celery

log = logging.getLogger(__name__)


class QueueFullError(Exception):
    """As many tasks wait as may."""


@cache
def app() -> Celery:
    """The site's own end of the broker; it sends and runs nothing."""
    from celery import Celery  # noqa: PLC0415 - half a second

    made = Celery("assay-site", set_as_current=False)
    made.config_from_object("django.conf:settings", namespace="CELERY")
    configure(made)
    made.conf.control_exchange = CONTROL_EXCHANGE
    # At once, and once more where Redis was started again meanwhile; kombu's own way takes 6 s.
    made.conf.broker_transport_options = {"max_retries": 1, "interval_start": 0, "interval_max": 0}
    return made


def send(task: str, args: list[object], queue: str | None = None, *, lost: str) -> bool:
    """Put a task on a queue, by default the site's; False where the broker is down.

    The log has what is `lost`.
    """
    return _try_broker(partial(app().send_task, task, args=args, queue=queue, retry=False), lost)


def send_if_room(task: str, args: list[object], most: int, *, lost: str) -> bool:
    """The same on the site's queue, for what strangers may send: False where `most` wait there."""
    return _try_broker(partial(_send_if_room, task, args, most), lost)


def _send_if_room(task: str, args: list[object], most: int) -> None:
    with app().producer_or_acquire() as producer:
        queue = app().conf.task_default_queue
        declare = producer.connection.ensure(  # its answer has the queue's length
            producer, lambda: producer.channel.queue_declare(queue), max_retries=1, interval_start=0
        )
        if (waiting := declare().message_count) >= most:
            raise QueueFullError(f"{waiting} tasks wait already")
        app().send_task(task, args=args, producer=producer, retry=False)


def broadcast(command: str, arguments: dict[str, object], *, lost: str) -> bool:
    """Tell every bench worker a control command; False as above."""
    return _try_broker(partial(app().control.broadcast, command, arguments, reply=False), lost)


def _try_broker(action: Callable[[], object], lost: str) -> bool:
    from kombu.exceptions import OperationalError  # noqa: PLC0415 - with Celery

    try:
        action()
    except (OperationalError, OSError) as error:
        log.warning("Broker unreachable, %s: %s", lost, error)
        return False
    except QueueFullError as error:
        log.warning("Queue full, %s: %s", lost, error)
        return False
    return True
