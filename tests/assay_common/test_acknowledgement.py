"""A worker connects anew when its acknowledgement is lost with the broker."""

from __future__ import annotations

import pytest
from celery import Celery
from kombu import Connection
from kombu.asynchronous import Hub, get_event_loop, set_event_loop
from redis.exceptions import ConnectionError as RedisConnectionError

from assay_common.acknowledgement import Request


def test_a_lost_acknowledgement_ends_the_loop_that_then_connects_again() -> None:
    """Celery's own request logs it; the worker would never take another message."""
    errors = Connection("redis+socket:///nobody/is/here.sock").connection_errors
    message = Connection("memory://").SimpleQueue("any")
    message.put([[], {}, {}])
    taken = message.get(timeout=1)

    def lost(multiple: bool = False) -> None:
        raise RedisConnectionError("Connection closed by server.")

    taken.ack = lost
    app = Celery(set_as_current=False)

    @app.task(name="any", shared=False)  # type: ignore[untyped-decorator]
    def task() -> None: ...

    request = Request(
        taken,
        app=app,
        headers={"id": "one", "task": "any"},
        on_ack=taken.ack_log_error,
        connection_errors=errors,
    )
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
