"""A worker that is told to stop neither waits for a message nor loses one."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

import pytest
from kombu import Connection, Message, Queue
from kombu.utils.json import dumps

from assay_common.redis_transport import Transport
from tests.processes import FOREVER, PATIENCE

QUEUE = Queue("work", routing_key="work")


@pytest.fixture
def waiting(redis_url: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Connection]:
    """A connection that waits for a message, for longer than any test."""
    monkeypatch.setattr(Transport, "brpop_timeout", FOREVER)
    with Connection(redis_url, transport=Transport) as connection:
        QUEUE(connection.default_channel).declare()
        QUEUE(connection.default_channel).purge()
        consumer = connection.Consumer(QUEUE, callbacks=[lambda *_: None])
        consumer.consume()
        with suppress(TimeoutError):
            connection.drain_events(timeout=0.1)
        assert connection.default_channel._in_poll
        yield connection


def test_it_does_not_wait(waiting: Connection) -> None:
    waiting.close()


@pytest.mark.parametrize("late", [False, True])
def test_it_loses_nothing(waiting: Connection, redis_url: str, late: bool) -> None:
    """A message that Redis took for it before it heard of the end goes back; a later one stays."""
    if late:
        waiting.close()
    with Connection(redis_url, transport=Transport) as other:
        other.Producer().publish({"a": 1}, routing_key="work", declare=[QUEUE])
        waiting.close()
        message = QUEUE(other.default_channel).get()
        assert message is not None
        message.ack()


def test_bench_workers_start_no_other_tasks_than_those_of_events(redis_url: str) -> None:
    """They may put messages on that queue, so its worker runs what they name."""
    events = Queue("events", routing_key="events")
    taken = []
    with Connection(redis_url, transport=Transport) as connection:
        events(connection.default_channel).declare()
        events(connection.default_channel).purge()
        for task in ("site.mail_link", "runs.heartbeat", None, "health.token"):
            headers = {"task": task} if task else {}
            connection.Producer().publish([[], {}, {}], routing_key="events", headers=headers)
        consumer = connection.Consumer(events, on_message=taken.append, no_ack=True)
        consumer.consume()
        while len(taken) < 2:
            connection.drain_events(timeout=PATIENCE)
    assert [message.headers["task"] for message in taken] == ["runs.heartbeat", "health.token"]


def test_a_message_comes_from_its_queue_whatever_it_says(redis_url: str) -> None:
    """Else one on `events` would vouch for another queue, or be put back on that one."""
    events, site = Queue("events", routing_key="events"), Queue("site", routing_key="site")
    with Connection(redis_url, transport=Transport) as connection:
        channel = connection.default_channel
        for queue in (events, site):
            queue(channel).declare()
            queue(channel).purge()
        properties = {
            "delivery_tag": "1",
            "delivery_info": {"exchange": "other", "routing_key": "site"},
        }
        message = channel.prepare_message("[[], {}, {}]", headers={"task": "health.token"})
        channel.client.lpush("events", dumps(message | {"properties": properties}))
        taken: list[Message] = []
        with connection.Consumer(events, on_message=taken.append):
            connection.drain_events(timeout=PATIENCE)
        assert taken[0].delivery_info["routing_key"] == "events"
        assert taken[0].delivery_tag != "1", "of another message"
    with Connection(redis_url, transport=Transport) as connection:  # it was not acknowledged
        assert site(connection.default_channel).get() is None
        assert events(connection.default_channel).get() is not None
