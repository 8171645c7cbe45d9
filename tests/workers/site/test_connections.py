"""The site's workers keep their connection to the database from task to task."""

from __future__ import annotations

import time

import pytest
from celery.fixups.django import DjangoWorkerFixup
from django.db import OperationalError, connection

from workers.site.app import app
from workers.site.queue_health import store_token

pytestmark = pytest.mark.django_db(transaction=True)


def run_task() -> None:
    """Run a task as a worker does, with Celery's own handling of Django."""
    fixup = DjangoWorkerFixup(app)
    fixup.on_task_prerun(store_token)
    store_token.apply(routing_key="site", throw=True)
    fixup.on_task_postrun(store_token)


def test_a_connection_serves_many_tasks() -> None:
    run_task()
    kept = connection.connection
    run_task()
    assert kept is not None
    assert connection.connection is kept


def test_an_old_one_is_replaced() -> None:
    run_task()
    kept = connection.connection
    connection.close_at = time.monotonic() - 1
    run_task()
    assert connection.connection is not kept


if connection.vendor == "postgresql":

    def test_a_broken_one_is_replaced() -> None:
        run_task()
        with pytest.raises(OperationalError), connection.cursor() as cursor:
            cursor.execute("SELECT pg_terminate_backend(pg_backend_pid())")
        run_task()
        assert connection.is_usable()

else:

    def test_one_that_can_only_read_is_replaced() -> None:
        run_task()
        connection.cursor().execute("PRAGMA query_only = 1")  # as where its log was not writable
        with pytest.raises(OperationalError, match="readonly"):
            store_token.apply(routing_key="site", throw=True)
        run_task()
