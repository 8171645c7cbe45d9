"""Several queues in one worker: one task of each at a time, so that none waits for another.

Celery takes the messages of all queues by one consumer: three look-ups that wait for arXiv would
keep three of a pool's children, and a sign-in link would wait for them. Here each queue has a
consumer of its own, which takes a message only while no task of that queue runs.
"""

import logging
import os
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from resource import RUSAGE_SELF, getrusage
from threading import Timer
from types import MethodType
from typing import Any

from celery import bootsteps
from celery.concurrency import thread
from celery.concurrency.base import apply_target
from celery.worker import state
from kombu.common import ignore_errors

log = logging.getLogger(__name__)


class QueueConsumers(bootsteps.StartStopStep):
    """A consumer for each queue of a worker that has several; Celery's own is left without any."""

    requires = ("celery.worker.consumer.tasks:Tasks",)

    def __init__(self, worker: Any, **options: Any) -> None:
        super().__init__(worker, **options)
        self.consumers: list[Any] = []

    def start(self, worker: Any) -> None:
        """Take the queues from Celery's consumer, which has taken no message yet."""
        queues = worker.task_consumer.queues
        if len(queues) < 2:
            return
        for queue in queues:
            worker.task_consumer.cancel_by_queue(queue.name)
            channel = worker.connection.channel()
            channel.qos.can_consume = MethodType(_idle(queue.name), channel.qos)
            consumer = worker.app.amqp.TaskConsumer(
                channel, queues=[queue], on_decode_error=worker.on_decode_error
            )
            consumer.on_message = worker.create_task_handler()
            consumer.consume()
            self.consumers.append(consumer)

    def stop(self, worker: Any) -> None:
        """Take no further message."""
        for consumer in self.consumers:
            ignore_errors(worker, consumer.cancel)

    def shutdown(self, worker: Any) -> None:
        """Close the channels, once the tasks that ran have acknowledged their messages."""
        for consumer in self.consumers:
            ignore_errors(worker, consumer.channel.close)
        self.consumers.clear()


def _idle(queue: str) -> Callable[[Any], bool]:
    def can_consume(_: Any) -> bool:
        return all(request.delivery_info.get("routing_key") != queue for request in _reserved())

    return can_consume


def _reserved() -> tuple[Any, ...]:
    """Return the tasks that run or wait here: a set that threads change while it is read."""
    while True:
        try:
            return tuple(state.reserved_requests)
        except RuntimeError:  # its size changed
            continue


class ThreadPool(thread.TaskPool):
    """Celery's pool of threads, with limits: several queues take the memory of one process.

    Nothing can end a thread that hangs but the end of its process: it ends, and its supervisor
    starts it again. Every task tolerates that, as it does a kill. The process also stops after a
    task with which it has taken more memory than a child of another pool might.

    Celery's loop sleeps for up to a second while nothing arrives. A byte in a pipe wakes it when a
    task ends, so that the next message of its queue is taken at once.
    """

    def on_start(self) -> None:
        """Start the threads, and open the pipe."""
        super().on_start()
        self.ended, self.wake = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)

    def register_with_event_loop(self, loop: Any) -> None:
        """Let the end of a task wake the loop; asked again after each lost connection."""
        loop.add_reader(self.ended, self._empty)

    def _empty(self) -> None:
        with suppress(BlockingIOError):
            os.read(self.ended, 4096)

    def _wake_loop(self, _: Future[None]) -> None:
        with suppress(BlockingIOError):  # full: the loop has not slept since
            os.write(self.wake, b".")

    def on_apply(
        self, target: Callable[..., Any], *given: Any, timeout: float | None = None, **more: Any
    ) -> Any:
        """Run a task in a thread, and end this process if it is not done within `timeout` s."""
        seconds = timeout or self.options.get("timeout")
        memory = self.options.get("max_memory_per_child")  # KiB
        callbacks = {name: more.get(name) for name in ("callback", "accept_callback")}

        def run() -> None:
            limit = Timer(seconds, _end_process, (seconds,)) if seconds else None
            if limit:
                limit.daemon = True
                limit.start()
            try:
                apply_target(target, *given, **callbacks)
            finally:
                if limit:
                    limit.cancel()
                if memory and getrusage(RUSAGE_SELF).ru_maxrss > memory:
                    log.info("This worker has taken %s KiB: it stops, to be started again", memory)
                    state.should_stop = os.EX_OK  # type: ignore[assignment] # None until then

        future = self.executor.submit(run)  # type: ignore[attr-defined] # the stubs lack it
        future.add_done_callback(self._wake_loop)
        return thread.ApplyResult(future)  # type: ignore[attr-defined] # nor this


def _end_process(seconds: float) -> None:
    log.error("A task ran for more than %.0f s: this worker ends, to be started again", seconds)
    logging.shutdown()
    os._exit(1)
