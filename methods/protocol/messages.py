"""The events of a run and the jobs that ask for one: lines of JSON, and their signed envelope.

The signature is HMAC-SHA256 over the kind of message and its canonical JSON, so that nothing can
be changed on the way and a job cannot pass for an event.
"""

import base64
import binascii
import hashlib
import hmac
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Annotated, Any, Literal, Self, TypeVar

from pydantic import Field, JsonValue, SerializeAsAny, field_validator, model_validator

from .base import (
    Count,
    Label,
    Name,
    Page,
    ProtocolError,
    Seconds,
    Sentence,
    Strict,
    Token,
    Version,
    WorkerName,
    canonical,
    parse,
)
from .measured import Environment, MachineState, Series

VERSION = 1
MIN_KEY_BYTES = 32
MAX_JOB_BYTES = 64 * 1024
MAX_EVENT_BYTES = 2 * 1024 * 1024
MAX_LOG_BYTES = 8 * 1024
MAX_ARTEFACT_BYTES = 1024 * 1024


class Started(Strict):
    """The run has begun; everything needed to repeat it."""

    method: Name
    benchmark: Name
    version: Count
    preset: Name | None = None
    params: dict[Name, JsonValue]
    seed: Count
    device: Literal["cpu", "cuda"]
    environment: Environment
    at: Seconds  # Unix time


class Progress(Strict):
    """Progress of a run: a snapshot, at most two a second."""

    fraction: Annotated[float, Field(ge=0, le=1)]
    message: Label = ""
    elapsed: Seconds
    left: Seconds | None = None

    @classmethod
    def at(cls, fraction: float, message: str, elapsed: float) -> Self:
        """Progress after `elapsed` seconds, with those that are left if it goes on like this."""
        left = elapsed * (1 - fraction) / fraction if fraction else None
        return cls(fraction=fraction, message=message[:200], elapsed=elapsed, left=left)


class Log(Strict):
    """A piece of the log; ``offset`` counts the UTF-8 bytes before it, so that gaps show."""

    offset: Count
    text: Page

    @field_validator("text")
    @classmethod
    def _fits(cls, text: str) -> str:
        if len(text.encode()) > MAX_LOG_BYTES:
            raise ValueError(f"a piece of log is at most {MAX_LOG_BYTES} bytes")
        return text


class CheckResult(Strict):
    """A correctness check: what was measured against which bound. NaN is sent as None."""

    name: Name
    label: Label = ""
    measured: bool | float | None
    bound: bool | float
    relation: Literal["<=", ">=", "=="]
    passed: bool


class Artefact(Strict):
    """A file the run made: a picture or a table beside its series."""

    name: Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9_-]{0,80}(\.[a-z0-9]{1,8}){1,2}$")]
    media_type: Literal["image/svg+xml", "image/png", "text/plain", "text/csv", "application/json"]
    encoding: Literal["text", "base64"]
    content: Annotated[str, Field(max_length=MAX_ARTEFACT_BYTES * 4 // 3 + 4)]

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if len(self.data()) > MAX_ARTEFACT_BYTES:
            raise ValueError(f"an artefact is at most {MAX_ARTEFACT_BYTES} bytes")
        return self

    def data(self) -> bytes:
        """The file's bytes; raises ValueError when they are not valid base64."""
        if self.encoding == "text":
            return self.content.encode()
        try:
            return base64.b64decode(self.content, validate=True)
        except binascii.Error as error:
            raise ValueError("not valid base64") from error


class Result(Strict):
    """The run has ended and its numbers may be shown, once all is there that this names."""

    duration: Seconds
    checks: Count
    series: tuple[Name, ...]
    artefacts: Count = 0
    after: MachineState = MachineState()
    processes: Count = 0  # fresh processes that measured; 0 where the run itself did
    stopped: Literal["", "narrow", "time", "most"] = ""  # why no further process was begun

    def named(self) -> Counter[str]:
        """Return the number of events of each kind that the result counts on."""
        series = len(self.series)
        return Counter(started=1, check=self.checks, series=series, artefact=self.artefacts)


class Failed(Strict):
    """The run has ended without numbers that may be shown (or only ``partial`` ones)."""

    kind: Literal["input", "check", "memory", "error", "timeout", "killed"]
    message: Sentence
    detail: Page = ""
    partial: bool = False


class Cancelled(Strict):
    """The run was interrupted; what it had measured so far was sent, marked partial."""

    reason: Sentence = ""
    partial: bool = False


BODIES: Mapping[str, type[Strict]] = {
    "started": Started,
    "progress": Progress,
    "log": Log,
    "series": Series,
    "check": CheckResult,
    "artefact": Artefact,
    "result": Result,
    "failed": Failed,
    "cancelled": Cancelled,
}
KINDS: Mapping[type[Strict], str] = {body: kind for kind, body in BODIES.items()}
TERMINAL: frozenset[str] = frozenset({"result", "failed", "cancelled"})
# What was measured, and how many events of each kind a run may send.
MEASURED: Mapping[str, int] = {"started": 1, "check": 1_000, "series": 100, "artefact": 20}


def parse_body(kind: str, body: object) -> Strict:
    """The validated body of an event of this kind; raises :class:`ProtocolError`."""
    if kind not in BODIES:
        raise ProtocolError(f"no event is of kind {kind[:40]!r}")
    return parse(BODIES[kind], canonical(body), MAX_EVENT_BYTES)


class Line(Strict):
    """An event as the command line prints it."""

    v: Version = 1
    seq: Count
    kind: str  # a name of `BODIES`
    body: SerializeAsAny[Strict]

    @model_validator(mode="before")
    @classmethod
    def _typed_body(cls, data: Any) -> Any:
        if not isinstance(data, dict) or not isinstance(data.get("kind"), str):
            return data
        if isinstance(body := data.get("body"), dict):
            return {**data, "body": parse_body(data["kind"], body)}
        return data

    @model_validator(mode="after")
    def _matching(self) -> Self:
        if type(self.body) is not BODIES.get(self.kind):
            raise ValueError(f"the body does not fit an event of kind {self.kind[:40]!r}")
        return self

    @classmethod
    def parse(cls, line: str | bytes) -> Self:
        """The line's event; raises :class:`ProtocolError` for anything but one."""
        return parse(cls, line, MAX_EVENT_BYTES)

    def dump(self) -> str:
        """One line of canonical JSON, no newline."""
        return canonical(self.model_dump(mode="json")).decode()


class Event(Line):
    """An event on its way to the site."""

    run: Token
    token: Token
    worker: WorkerName


class Limits(Strict):
    """Limits of a run; memory 0: as much as the machine allows."""

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


def unseal(
    kind: type[Envelope], message: object, key_of: Callable[[str], bytes | None]
) -> Envelope:
    """Open a sealed message; raises :class:`ProtocolError` for anything else.

    ``key_of`` gives the key of the worker named in the message (a job names none), None for an
    unknown worker.
    """
    if not isinstance(message, dict) or not isinstance(message.get("sig"), str):
        raise ProtocolError("a message is a signed JSON object")
    data = {name: value for name, value in message.items() if name != "sig"}
    if len(canonical(data)) > _limit(kind):
        raise ProtocolError(f"a {kind.__name__} is at most {_limit(kind)} bytes")
    key = key_of(str(data.get("worker"))[:100])
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
