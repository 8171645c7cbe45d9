"""Several queues in one worker: one task of each at a time, so that none waits for another.

Celery takes the messages of all queues by one consumer: three look-ups that wait for arXiv would
keep three of a pool's children, and a sign-in link would wait for them. Here each queue has a
consumer of its own, which takes a message only while no task of that queue runs.
"""

import logging
import os
from collections.abc import Callable
from concurrent.futures import Future
from threading import Timer
from types import MethodType
from typing import Any

from celery import bootsteps
from celery.concurrency import thread
from celery.concurrency.base import apply_target
from celery.worker import state
from kombu.asynchronous import get_event_loop
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
        reserved = tuple(state.reserved_requests)
        return all(request.delivery_info.get("routing_key") != queue for request in reserved)

    return can_consume


class ThreadPool(thread.TaskPool):
    """Celery's pool of threads, with time limits: four queues take the memory of one process.

    Nothing can end a thread that hangs but the end of its process: it ends, and its supervisor
    starts it again. Every task tolerates that, as it does a kill.
    """

    def on_apply(
        self, target: Callable[..., Any], *given: Any, timeout: float | None = None, **more: Any
    ) -> Any:
        """Run a task in a thread, and end this process if it is not done within `timeout` s."""
        seconds = timeout or self.options.get("timeout")
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

        future = self.executor.submit(run)  # type: ignore[attr-defined] # the stubs lack it
        future.add_done_callback(_wake_loop)
        return thread.ApplyResult(future)  # type: ignore[attr-defined] # nor this


def _end_process(seconds: float) -> None:
    log.error("A task ran for more than %.0f s: this worker ends, to be started again", seconds)
    logging.shutdown()
    os._exit(1)


def _wake_loop(_: Future[None]) -> None:
    """Let the queue's next message be taken at once: Celery's loop may sleep for a second."""
    if loop := get_event_loop():
        loop.call_soon(lambda: None)
