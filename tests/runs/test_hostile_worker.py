"""The worker as a visitor: every field of every message that it can sign, with hostile values.

It holds a good key, so the signature keeps nothing out. Whatever it says, the recorder takes or
drops it and goes on, and every page that could show it answers.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

import pytest
from django.test import Client

from methods import protocol
from methods.protocol.messages import _signature
from tests.runs import saying
from webapp.runs import broker, heartbeats, keys
from webapp.runs.models import Run, StandingMeasurement, Worker
from webapp.runs.record import store_event

pytestmark = pytest.mark.django_db

VALUES = ("\x00", "\u202e31\u2066", "9" * 400, "\ud800", 1e308, 5e-324, -1, None, [])
SHOWN = ("/runs/", "/runs/{}/", "/runs/{}/results.json", "/runs/{}/results.csv", "/runs.atom")


@pytest.fixture(autouse=True)
def _no_broker(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(broker, "cancel", lambda *_: None)
    monkeypatch.setattr(broker, "send_job", lambda *_: True)


def places(value: object, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The paths of every leaf and inner object of JSON."""
    if path:
        yield path
    if isinstance(value, dict | list):
        for key, one in value.items() if isinstance(value, dict) else enumerate(value):
            yield from places(one, (*path, key))


def changed(message: dict[str, Any], path: tuple[Any, ...], value: object) -> dict[str, Any]:
    made = copy.deepcopy(message)
    inner = made
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = value
    return made


def signed(kind: type, message: dict[str, Any]) -> dict[str, Any] | None:
    """The message under the worker's own signature; None where no JSON can carry it."""
    data = {name: value for name, value in message.items() if name != "sig"}
    try:
        return {**data, "sig": _signature(kind, data, key())}
    except protocol.ProtocolError:
        return None


def key() -> bytes:
    return keys.key_of(Worker.objects.get(name="one"))


@pytest.mark.parametrize("place", [0, 1, 2, 3, 6, 7])  # one of each kind
def test_no_event_breaks_the_recorder_or_a_page(client: Client, place: int) -> None:
    saying.live_worker()
    run = saying.dispatched()
    messages = saying.whole_run(run)
    heard = 0
    for turn, path in enumerate(places(messages[place])):
        Run.objects.filter(pk=run.pk).update(state="dispatched", result=None)
        for value in VALUES[turn % 3 :: 3]:
            message = signed(protocol.Event, changed(messages[place], path, value))
            if message is not None:
                store_event(message)
                heard += 1
    for message in messages:
        store_event(message)
    assert heard > 20
    for page in SHOWN:
        assert client.get(page.format(run.pk)).status_code == 200, page


def test_no_heartbeat_breaks_the_recorder_or_a_page(client: Client) -> None:
    saying.live_worker()
    message = saying.beat("one", "boot", 1)
    for turn, path in enumerate(places(message)):
        for value in VALUES[turn % 3 :: 3]:
            if (said := signed(protocol.Heartbeat, changed(message, path, value))) is not None:
                heartbeats.record_heartbeat(said)
    assert client.get("/workers/").status_code == 200


def test_a_heartbeat_of_a_run_without_an_id_of_ours_is_stored() -> None:
    saying.live_worker()
    message = {**saying.beat("one", "boot", 1), "run": "no-uuid", "token": "t"}
    assert heartbeats.record_heartbeat(signed(protocol.Heartbeat, message))
    assert Worker.objects.get(name="one").boot == "boot"


def test_a_false_figure_stands_until_another_worker_measures_the_same() -> None:
    """Its signature is right, so nobody can tell; sent once more it changes nothing."""
    for name in ("one", "two"):
        saying.live_worker(name)

    def measured(worker: str, median: float) -> tuple[Run, list[dict[str, Any]]]:
        run = saying.dispatched(preset="full")
        bodies = (saying.started(), saying.check(), saying.series(median=median), saying.result())
        messages = [saying.say(run, seq, body, worker) for seq, body in enumerate(bodies)]
        for message in messages:
            store_event(message)
        run.refresh_from_db()
        return run, messages

    lie, messages = measured("one", 1e-6)
    standing = StandingMeasurement.objects.select_related("series__run__worker")
    assert standing.get().series.run == lie
    truth, _ = measured("two", 1.0)
    assert standing.get().series.run == truth
    for message in messages:
        store_event(message)
    assert standing.get().series.run == truth
    assert (lie.worker.name, truth.worker.name) == ("one", "two")  # both runs say who measured


@pytest.mark.parametrize(
    ("bodies", "reason"),
    [
        (
            [saying.check().model_copy(update={"passed": False}), saying.series(), saying.result()],
            "missed its bound",
        ),
        (
            [
                saying.check(),
                *(2 * [saying.series()]),
                saying.result().model_copy(update={"series": ("latency", "other")}),
            ],
            "names other series",
        ),
    ],
)
def test_a_result_that_contradicts_its_events_is_no_success(
    bodies: list[protocol.Strict], reason: str
) -> None:
    saying.live_worker()
    run = saying.dispatched(preset="full")
    for seq, body in enumerate([saying.started(), *bodies]):
        store_event(saying.say(run, seq, body))
    run.refresh_from_db()
    assert run.state == "failed"
    assert reason in run.reason
    assert not StandingMeasurement.objects.exists()
