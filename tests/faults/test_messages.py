"""The broker loses, doubles, delays and forges, and a clock is wrong: over real processes."""

from __future__ import annotations

import json
import signal
import time
import uuid
from itertools import pairwise

import pytest
from celery import Celery

from assay_common.redis_broker import CONTROL_EXCHANGE
from tests import machine
from tests.faults.clocks import wrong_by
from tests.faults.test_kills import measured_once, nothing_left
from tests.processes import FOREVER, wait_for
from tests.runs import saying
from tests.runs.asking import ask, ended, measuring, reached
from tests.runs.rig import Rig
from webapp.core import tasks
from webapp.runs import broker, submit
from webapp.runs.dispatch import send
from webapp.runs.models import Run, State, Worker


def purge(queue: str) -> int:
    """Lose every message of a queue."""
    app: Celery = tasks.app()
    with app.connection_for_write() as connection:
        return connection.default_channel.queue_purge(queue)


def taken(queue: str) -> list[dict]:
    """Every event that waits, in order; none waits any more."""
    app: Celery = tasks.app()
    with app.connection_for_write() as connection:
        channel = connection.default_channel
        messages = list(iter(lambda: channel.basic_get(queue, no_ack=True), None))
    found = [json.loads(m.body)[0] for m in messages if m.headers["task"] == "runs.record"]
    return [event for (event,) in found]


def put(task: str, queue: str, *args: object) -> None:
    tasks.app().send_task(task, args=args, queue=queue)


def test_a_lost_job_is_sent_again(rig: Rig) -> None:
    rig.send("one", signal.SIGSTOP)  # its child goes on to say that it lives
    run = reached(ask(), State.DISPATCHED)
    wait_for(lambda: purge("bench-cpu"), "the job")
    rig.send("one", signal.SIGCONT)
    measured_once(ended(run))
    assert run.attempt == 1


def test_lost_events_are_said_again(rig: Rig) -> None:
    """All is lost but the last telling; what the recorder held when it was killed is in it."""
    run = measuring(ask(seconds=10))
    rig.kill("recorder")
    heard: list[dict] = []

    def told() -> bool:
        heard.extend(event for event in taken("events") if event["run"] == str(run.pk))
        return [event["kind"] for event in heard].count("result") >= 3

    wait_for(told, "the result, three times")
    second = [number for number, event in enumerate(heard) if event["kind"] == "result"][1]
    for event in heard[second + 1 :]:
        put("runs.record", "events", event)
    rig.recorder()
    measured_once(ended(run))
    assert run.attempt == 1


def test_doubled_jobs_are_measured_once(rig: Rig) -> None:
    run = reached(ask(seconds=1))
    for _ in range(3):
        send(run)
    ended(run)
    for _ in range(2):
        send(run)
    measured_once(ended(ask()))
    run.refresh_from_db()
    measured_once(run)
    assert rig.log("one").count(f"Run {run.pk} was delivered twice") == 5


def test_a_late_job_of_an_old_attempt_is_stopped(rig: Rig) -> None:
    """Delivered when its run has long ended: the worker is told so at its first word."""
    run = ended(ask())
    late = Run.objects.get(pk=run.pk)
    late.token = f"{run.token[:20]}-late"
    late.params = {**run.params, "seconds": FOREVER}
    before = rig.log("one").count(f"Run {run.pk} is cancelled")
    send(late)
    wait_for(lambda: rig.log("one").count(f"Run {run.pk} is cancelled") > before, "the answer")
    nothing_left(rig)
    run.refresh_from_db()
    measured_once(run)


def test_forged_replayed_malformed_and_oversized(rig: Rig) -> None:
    """Nothing of it changes a run, and the recorder and the worker go on."""
    run = measuring(ask(seconds=2))
    good = saying.say(run, 500, saying.result())
    junk: list[object] = [
        {**good, "sig": "0" * 64},
        {**good, "seq": 3},
        None,
        {},
        "x" * 5_000_000,
        {"deep": json.loads("[" * 400 + "]" * 400)},
    ]
    for message in junk:
        put("runs.record", "events", message)
        put("runs.heartbeat", "events", message)
        put("bench.run", "bench-cpu", message)
        put("bench.run", "bench-cpu", {"one": message})
    put("runs.record", "events")
    put("runs.nothing", "events", 1)
    put("bench.run", "bench-cpu", 1, 2)
    measured_once(ended(run))
    replayed = saying.say(run, 500, saying.series(median=99.0))
    put("runs.record", "events", replayed)  # signed, but of a run that has its series
    measured_once(ended(ask()))
    for name in ("recorder", "one"):
        assert rig.running[name].is_alive()


def _raw(queue: str, data: bytes) -> None:
    """Put bytes on a queue past every library."""
    app: Celery = tasks.app()
    with app.connection_for_write() as connection:
        connection.default_channel.client.lpush(queue, data)


MALFORMED = (
    b"\xff not json at all {",
    b"",
    b"[1, 2]",
    b"7",
    b'"text"',
    b"null",
    b"[" * 100_000,
    b'{"body": "e30=", "properties": [], "headers": {}}',
    b'{"body": 5, "headers": 5, "properties": {"delivery_tag": "x", "delivery_info": 5}}',
    b'{"body": "e30=", "headers": {}, "properties": {"delivery_tag": [1], "delivery_info": {'
    b'"exchange": "", "routing_key": "x"}}}',
)
HEADERS: tuple[dict[str, object], ...] = (
    {"task": ["runs.sweep"], "id": "x"},
    {"task": {}, "id": "x"},
    {"task": "runs.sweep", "id": ["x"]},
    {"task": "runs.sweep", "id": "x", "eta": 7, "expires": {}},
    {"task": "runs.sweep", "id": "x", "timelimit": ["x", "y"]},
    {"task": "runs.sweep", "id": "x", "timelimit": 7},
    {"task": "runs.sweep", "id": "x", "retries": "many", "argsrepr": 5, "stamps": 5},
)


def wrapped(headers: object, body: object = "W1tdLCB7fSwge31d") -> bytes:
    """A message as kombu writes it, of which some part is not as Celery wants it."""
    properties = {
        "correlation_id": "x", "delivery_mode": 2, "priority": 0, "body_encoding": "base64",
        "delivery_tag": uuid.uuid4().hex, "delivery_info": {"exchange": "", "routing_key": "x"},
    }  # fmt: skip
    envelope = {"content-type": "application/json", "content-encoding": "utf-8"}
    return json.dumps(
        {"body": body, "headers": headers, "properties": properties, **envelope}
    ).encode()


@pytest.mark.parametrize(("name", "queue"), [("recorder", "events"), ("one", "bench-cpu")])
def test_what_is_no_message_is_dropped_and_the_worker_lives(
    rig: Rig, name: str, queue: str
) -> None:
    before = rig.running[name].pid
    for data in (*MALFORMED, *map(wrapped, HEADERS), wrapped({"task": "x"}, body=["x"])):
        _raw(queue, data)
    measured_once(ended(ask()))
    assert (rig.running[name].pid, rig.running[name].is_alive()) == (before, True)
    assert "Malformed message dropped" in rig.log(name)


def test_whoever_reaches_redis_ends_no_worker_of_the_site(rig: Rig) -> None:
    """A bench worker hears commands; the site's hear none, on either exchange."""
    before = rig.running["recorder"].pid
    for exchange in ("celery", CONTROL_EXCHANGE):
        app = Celery(broker=tasks.app().conf.broker_url)
        app.conf.control_exchange = exchange
        app.control.shutdown(destination=["recorder@test"])
        app.close()
    measured_once(ended(ask()))
    assert (rig.running["recorder"].pid, rig.running["recorder"].is_alive()) == (before, True)


def test_a_worker_with_another_key(rig: Rig) -> None:
    """It announces nothing, it is given nothing, and its events count for nothing."""
    saying.live_worker("stranger", last_seen=None)
    rig.bench("stranger", key="ab" * 32)
    wait_for(lambda: "ready" in rig.log("stranger"), "the stranger")
    time.sleep(1)
    assert Worker.objects.get(name="stranger").last_seen is None
    rig.kill("stranger")
    Worker.objects.filter(name="stranger").delete()


def test_two_dispatchers_at_once(rig: Rig) -> None:
    """Both look at the queue all the time, and the one worker is never given two runs."""
    rig.recorder("second")
    wait_for(lambda: "ready" in rig.log("second"), "the second dispatcher")
    runs = [ask(seconds=0.1) for _ in range(4)]
    for _ in range(20):
        broker.kick()
    for run in runs:
        measured_once(ended(run))
        assert run.attempt == 1
    began = sorted((run.dispatched_at, run.finished_at) for run in runs)
    assert all(end <= start for (_, end), (start, _) in pairwise(began))
    rig.kill("second")


@pytest.mark.parametrize("wrong", ["-1d", "+1d"])
def test_a_worker_whose_clock_is_a_day_wrong(rig: Rig, wrong: str) -> None:
    if machine.FAKETIME.find() is None:
        pytest.skip(machine.FAKETIME.why_not)
    rig.kill("one")
    rig.bench("one", anew=True, **wrong_by(wrong))
    rig.mend()  # a job sent to the dead one would find this one slow to start
    run = ended(ask(seconds=1))
    measured_once(run)
    assert run.attempt == 1
    assert run.dispatched_at <= run.started_at <= run.finished_at
    endless = measuring(ask(seconds=FOREVER))
    assert submit.cancel(endless)
    assert ended(endless).state == State.CANCELLED
    rig.kill("one")
