"""A worker connects anew when its acknowledgement is lost with the broker."""

from __future__ import annotations

import pytest
from kombu import Connection
from kombu.asynchronous import Hub, get_event_loop, set_event_loop
from redis.exceptions import ConnectionError as RedisConnectionError

from assay_common.acknowledgement import Request


def test_a_lost_acknowledgement_ends_the_loop_that_then_connects_again() -> None:
    """Celery's own request logs it; the worker would never take another message."""
    errors = Connection("redis+socket:///nobody/is/here.sock").connection_errors
    message = Connection("memory://").SimpleQueue("any")
    message.put("hello")
    taken = message.get(timeout=1)

    def lost(multiple: bool = False) -> None:
        raise RedisConnectionError("Connection closed by server.")

    taken.ack = lost
    request = Request.__new__(Request)
    request.acknowledged = False
    request.id = "one"
    request._on_ack = taken.ack_log_error
    request._connection_errors = errors
    before, hub = get_event_loop(), Hub()
    set_event_loop(hub)
    try:
        request.acknowledge()
        with pytest.raises(RedisConnectionError):
            next(hub.create_loop())
    finally:
        set_event_loop(before)


@pytest.mark.parametrize("name", ["workers.site.app", "methods.worker.app"])
def test_every_task_is_acknowledged_so(name: str) -> None:
    from importlib import import_module

    app = import_module(name).app
    assert all(app.tasks[task].Request is Request for task in app.tasks if "celery" not in task)
