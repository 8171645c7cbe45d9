"""The scheduler of the periodic tasks, with a heartbeat in the database and no file of its own.

Celery imports this module with the tasks: after Django is set up.
"""

import logging
import os
import time
from datetime import timedelta
from threading import Thread
from typing import Any

from celery import beat
from django.db import DatabaseError, close_old_connections

from assay_common import liveness
from assay_common.outages import OUTAGE
from webapp.core import connections
from webapp.operate import heartbeats
from webapp.operate.heartbeats import SECONDS
from webapp.operate.models import Heartbeat
from webapp.runs import redis_users, sweep
from workers.site.app import app

SET_BACK = 1.0  # seconds; NTP sets a clock back by less

log = logging.getLogger(__name__)


def start_beside_worker() -> None:
    """Start the beat as a thread of a worker whose pool is of threads, which never forks.

    A beat that fails ends the process, to be started again with it.
    """
    Thread(target=_run, name="beat", daemon=True).start()


def _run() -> None:
    try:
        beat.Service(app, scheduler_cls=Scheduler).start()
    except BaseException:
        log.exception("The beat failed: its process ends, to be started again")
        logging.shutdown()
        os._exit(1)


def _nothing_to_sweep() -> bool:
    if redis_users.are_kept():  # a sweep restores those that Redis has lost
        return False
    try:
        return sweep.is_idle()
    except DatabaseError:  # the worker says so
        close_old_connections()
        return False


def _store_heartbeat() -> None:
    try:
        heartbeats.store(Heartbeat.Kind.BEAT, "beat")
        liveness.touch("beat")
    except DatabaseError as error:
        log.warning("Heartbeat of the beat not stored: %s", error)
    finally:
        close_old_connections()


class Scheduler(beat.Scheduler):
    """Celery's scheduler, with a heartbeat. When it starts, every task is due.

    Every task is also due when the clock has been set back: otherwise none would be sent until the
    clock reaches the old dates again.

    Tasks find out from the database what there is to do, so no file records when they were sent: a
    full disk or a kill could damage it.
    """

    _last_heartbeat = float("-inf")
    _last_tick = 0.0

    def setup_schedule(self) -> None:
        """Read the schedule."""
        super().setup_schedule()
        self._make_all_due()

    def _make_all_due(self) -> None:
        for entry in self.schedule.values():
            entry.last_run_at = self.app.now() - timedelta(days=1)
        self.populate_heap()

    def adjust(self, n: Any, drift: float = 0.0) -> Any:
        """Return when to wake for a task: as it is due.

        Celery would wake 10 ms before, and then look without a pause until it is due.
        """
        return n

    def schedules_equal(self, *schedules: object) -> bool:
        """Return True: the schedule never changes, and comparing it costs more than a tick."""
        return True

    def apply_entry(self, entry: beat.ScheduleEntry, producer: Any = None) -> None:
        """Send a due task, except a sweep of no runs, and what is for a model where none is."""
        if entry.task == "site.summaries" or (entry.options or {}).get("queue") == "summaries":
            skipped = not connections.current().summary_model
        else:
            skipped = entry.task == "runs.sweep" and _nothing_to_sweep()
        if not skipped:
            super().apply_entry(entry, producer)

    def apply_async(self, *args: Any, **kwargs: Any) -> Any:
        """Send a task; one that arrives ends an outage of Redis."""
        result = super().apply_async(*args, **kwargs)
        OUTAGE.end()
        return result

    def tick(self, *args: Any, **kwargs: Any) -> float:
        """Send the tasks that are due; return the seconds until the next tick."""
        now = time.time()
        if now < self._last_tick - SET_BACK:
            log.warning("The clock was set back by %d s: all tasks are due", self._last_tick - now)
            self._make_all_due()
        self._last_tick = now
        if time.monotonic() - self._last_heartbeat >= SECONDS:
            _store_heartbeat()
            self._last_heartbeat = time.monotonic()
        wait: float = super().tick(*args, **kwargs)
        return min(wait, SECONDS)
