"""The thread that sends: in order, again while the broker is unreachable, with heartbeats."""

from __future__ import annotations

import time
from multiprocessing import get_context
from types import SimpleNamespace

import pytest

from methods.worker import outbox as module
from methods.worker.outbox import Outbox
from tests.processes import FOREVER, wait_for


class Wire:
    """A broker that can be away."""

    def __init__(self) -> None:
        self.away = False
        self.heard: list[tuple[str, object]] = []

    def send(self, message) -> None:
        if self.away:
            raise ConnectionError("away")
        self.heard.append(message)


def open_outbox(wire: Wire, every: float = 60) -> Outbox:
    outbox = Outbox(wire.send, lambda: ("beat", {}), lambda: every)
    outbox.start()
    return outbox


def test_a_process_that_cannot_send_ends() -> None:
    """Else it would go on measuring while nobody hears of it."""

    def work() -> None:
        fails = lambda message: message[2]  # noqa: E731 - raises IndexError
        Outbox(fails, lambda: ("beat", {}), lambda: 60).start()
        time.sleep(FOREVER)

    process = get_context("fork").Process(target=work)
    process.start()
    process.join()
    assert process.exitcode == 1


def test_messages_wait_for_the_broker_in_order() -> None:
    wire = Wire()
    outbox = open_outbox(wire)
    wait_for(lambda: wire.heard, "the first heartbeat")
    wire.away = True
    for number in range(5):
        outbox.post(("event", {"n": number}))
        outbox.post_snapshot(("snapshot", {"n": number}))
    time.sleep(0.3)
    wire.away = False
    wait_for(lambda: len(wire.heard) >= 7, "all of it")
    outbox.close(1)
    events = [body["n"] for name, body in wire.heard if name == "event"]
    assert events == [0, 1, 2, 3, 4]
    assert [body["n"] for name, body in wire.heard if name == "snapshot"][-1] == 4
    assert sum(name == "snapshot" for name, _ in wire.heard) <= 2


def test_what_is_said_later(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0.0
    monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: now, sleep=time.sleep))
    wire = Wire()
    outbox = open_outbox(wire)
    for wait in (0.2, 0.1, 0.0):
        outbox.post(("end", {"wait": wait}), after=wait)
    now = 0.2
    wait_for(lambda: sum(name == "end" for name, _ in wire.heard) == 3, "three times")
    assert [body["wait"] for name, body in wire.heard if name == "end"] == [0.0, 0.1, 0.2]
    outbox.close(1)


def test_heartbeats_go_on() -> None:
    wire = Wire()
    outbox = open_outbox(wire, every=0.05)
    wait_for(lambda: len(wire.heard) > 5, "heartbeats")
    outbox.close(1)
