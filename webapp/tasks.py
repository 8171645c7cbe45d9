"""Tasks sent by name, so that the site imports no worker. The broker only carries."""

from __future__ import annotations

from functools import cache

from celery import Celery
from kombu.exceptions import OperationalError

from webapp.redis_broker import CONTROL_EXCHANGE


class BrokerDownError(Exception):
    """The broker could not be reached."""


@cache
def app() -> Celery:
    """The site's own end of the broker; it sends and runs nothing."""
    made = Celery("assay-site", set_as_current=False)
    made.config_from_object("django.conf:settings", namespace="CELERY")
    made.conf.control_exchange = CONTROL_EXCHANGE
    made.conf.task_ignore_result = True
    # At once, and once more where Redis was started again meanwhile; kombu's own way takes 6 s.
    made.conf.broker_transport_options = {"max_retries": 1, "interval_start": 0, "interval_max": 0}
    return made


def send(task: str, queue: str, args: list[object]) -> None:
    """Put a task on a queue. Raises BrokerDownError."""
    try:
        app().send_task(task, args=args, queue=queue, retry=False)
    except (OperationalError, OSError) as error:
        raise BrokerDownError(str(error)) from error
