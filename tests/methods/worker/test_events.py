"""The events of an attempt: whole, numbered, bounded."""

from __future__ import annotations

import time

import pytest

from methods import protocol
from methods.worker.events import LOG_CUT, MAX_RESULT_BYTES, EventSender, TooMuchError
from tests.methods.worker.jobs import JOB
from tests.runs import saying

KEY = b"k" * 32


@pytest.fixture
def sent() -> list[protocol.Event]:
    return []


@pytest.fixture
def events(sent: list[protocol.Event]) -> EventSender:
    class Box:
        behind = False

        def post(self, message, after: float = 0.0) -> None:
            if not after:
                sent.append(protocol.unseal(protocol.Event, message[1], lambda _: KEY))

        post_snapshot = post

    return EventSender(JOB, "one", KEY, Box())  # type: ignore[arg-type]


def text_of(sent: list[protocol.Event]) -> str:
    logs = [event.body for event in sent if isinstance(event.body, protocol.Log)]
    end = 0
    for piece in logs:
        assert piece.offset == end
        end += len(piece.text.encode())
    return "".join(piece.text for piece in logs)


def test_a_log_of_any_pieces_is_whole(events: EventSender, sent: list[protocol.Event]) -> None:
    text = "größer 😀 " * 5_000
    data = text.encode()
    for start in range(0, len(data), 777):
        events.write_log(data[start : start + 777])
    events.send_end(protocol.Result(duration=1.0, checks=0, series=()))
    assert text_of(sent) == text
    assert [event.seq for event in sent] == list(range(len(sent)))
    assert sent[-1].kind == "result"


def test_a_log_that_is_too_long_says_so_once(
    events: EventSender, sent: list[protocol.Event]
) -> None:
    for _ in range(40):
        events.write_log("é".encode() * 50_000)
    events.send_end(protocol.Cancelled())
    text = text_of(sent)
    assert text.endswith("é" + LOG_CUT)
    assert text.count(LOG_CUT) == 1
    assert len(text.encode()) <= 2**20


def test_progress_is_a_snapshot_twice_a_second(
    events: EventSender, sent: list[protocol.Event]
) -> None:
    began = time.monotonic()
    while len(sent) < 3:
        events.set_progress(protocol.Progress(fraction=0.5, elapsed=1.0))
        events.flush()
    assert time.monotonic() - began > 0.9


def test_results_are_bounded(events: EventSender) -> None:
    big = protocol.Artefact(
        name="big.txt", media_type="text/plain", encoding="text", content="x" * 1_000_000
    )
    with pytest.raises(TooMuchError):
        send_all(events, [big] * (MAX_RESULT_BYTES // 1_000_000 + 1))


@pytest.mark.parametrize("kind", protocol.MEASURED)
def test_results_are_bounded_in_number(events: EventSender, kind: str) -> None:
    """By the same numbers as the recorder's, or a result could wait for what is never taken."""
    most, body = protocol.MEASURED[kind], saying.MEASURED[kind]
    send_all(events, [body] * most)
    with pytest.raises(TooMuchError):
        events.send_result(body)


def send_all(events: EventSender, bodies: list[protocol.Strict]) -> None:
    for body in bodies:
        events.send_result(body)
