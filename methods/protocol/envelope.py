"""Jobs and events on their way between a site and its workers, signed with a shared key.

The signature is HMAC-SHA256 over the kind of message and its canonical JSON, so that nothing can
be changed on the way and a job cannot pass for an event.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Callable
from typing import Annotated, Any, Literal, TypeVar

from pydantic import Field, JsonValue

from methods.protocol.base import (
    Count,
    Label,
    Name,
    ProtocolError,
    Strict,
    Token,
    Version,
    WorkerName,
    canonical,
    parse,
)
from methods.protocol.events import MAX_EVENT_BYTES, Line

VERSION = 1
MAX_JOB_BYTES = 64 * 1024
MIN_KEY_BYTES = 32


class Event(Line):
    """An event on its way to the site."""

    run: Token
    token: Token
    worker: WorkerName


class Limits(Strict):
    """What a run may use; 0 memory: as much as the machine allows."""

    seconds: Annotated[int, Field(ge=1, le=7 * 86400)]
    memory_bytes: Count = 0


class Job(Strict):
    """A run on its way to a worker. The worker validates ``params`` again."""

    v: Version = 1
    run: Token
    attempt: Annotated[int, Field(ge=1, le=100)]
    token: Token
    method: Name
    benchmark: Name
    version: Count
    params: dict[Name, JsonValue]
    seed: Count
    limits: Limits


class Heartbeat(Strict):
    """A worker lives: what it is, and the attempt it holds, if any.

    ``boot`` is new whenever the worker starts and ``beat`` counts within it: together they order
    heartbeats without trusting a clock, and show a replayed one.
    """

    v: Version = 1
    worker: WorkerName
    boot: Token
    beat: Count
    device: Literal["cpu", "gpu"]
    device_name: Label
    memory_bytes: Count
    versions: dict[Annotated[str, Field(max_length=64)], Label]
    note: Label = ""
    leaving: bool = False  # the last one: nothing more is to be sent to it
    run: Token | None = None
    token: Token | None = None


Envelope = TypeVar("Envelope", Job, Event, Heartbeat)


def seal(message: Job | Event | Heartbeat, key: bytes) -> dict[str, Any]:
    """The message as plain JSON values with its ``sig``; raises ProtocolError when too large."""
    data = message.model_dump(mode="json")
    if len(canonical(data)) > _limit(type(message)):
        raise ProtocolError(f"a {type(message).__name__} of this size is not sent")
    return {**data, "sig": _signature(type(message), data, key)}


def open_job(message: object, key: bytes) -> Job:
    """The job in a sealed message; raises :class:`ProtocolError`."""
    return _open(Job, message, lambda _: key)


def open_event(message: object, key_of: Callable[[str], bytes | None]) -> Event:
    """The event in a sealed message, signed by the worker it names; raises ProtocolError.

    ``key_of`` gives a worker's key by its name, None for a worker that is not known.
    """
    return _open(Event, message, lambda data: key_of(str(data.get("worker"))[:100]))


def open_heartbeat(message: object, key_of: Callable[[str], bytes | None]) -> Heartbeat:
    """The heartbeat in a sealed message, signed by the worker it names; raises ProtocolError."""
    return _open(Heartbeat, message, lambda data: key_of(str(data.get("worker"))[:100]))


def _open(
    kind: type[Envelope], message: object, key_of: Callable[[dict[str, Any]], bytes | None]
) -> Envelope:
    if not isinstance(message, dict) or not isinstance(message.get("sig"), str):
        raise ProtocolError("a message is a signed JSON object")
    data = {name: value for name, value in message.items() if name != "sig"}
    if len(canonical(data)) > _limit(kind):
        raise ProtocolError(f"a {kind.__name__} is at most {_limit(kind)} bytes")
    key = key_of(data)
    if key is None or not hmac.compare_digest(
        _signature(kind, data, key).encode(), message["sig"].encode(errors="replace")
    ):
        raise ProtocolError("the signature is not the sender's")
    return parse(kind, canonical(data), _limit(kind))


def _signature(kind: type[Strict], data: dict[str, Any], key: bytes) -> str:
    if len(key) < MIN_KEY_BYTES:
        raise ProtocolError(f"a key has at least {MIN_KEY_BYTES} bytes")
    purpose = f"assay.{kind.__name__.lower()}.v{VERSION}\n".encode()
    return hmac.new(key, purpose + canonical(data), hashlib.sha256).hexdigest()


def _limit(kind: type[Strict]) -> int:
    return MAX_EVENT_BYTES if kind is Event else MAX_JOB_BYTES
