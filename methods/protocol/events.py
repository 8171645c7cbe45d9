"""The events of a run, and the line of JSON that carries one."""

from __future__ import annotations

import base64
import binascii
from collections import Counter
from collections.abc import Mapping
from typing import Annotated, Any, Literal, Self

from pydantic import Field, JsonValue, SerializeAsAny, field_validator, model_validator

from methods.protocol.base import (
    Count,
    Label,
    Name,
    Page,
    ProtocolError,
    Seconds,
    Sentence,
    Strict,
    Version,
    canonical,
    parse,
)
from methods.protocol.measured import Environment, MachineState, Series

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
    """How far the run is: a snapshot, at most two a second."""

    fraction: Annotated[float, Field(ge=0, le=1)]
    message: Label = ""
    elapsed: Seconds
    left: Seconds | None = None

    @classmethod
    def at(cls, fraction: float, message: str, elapsed: float) -> Self:
        """So far after so many seconds, and how long it will take if it goes on like this."""
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
        """How many events of each kind tell what was measured."""
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


Kind = Literal[
    "started", "progress", "log", "series", "check", "artefact", "result", "failed", "cancelled"
]
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
KINDS: Mapping[type[Strict], Kind] = {body: kind for kind, body in BODIES.items()}  # type: ignore[misc]
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
    kind: Kind
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
        if type(self.body) is not BODIES[self.kind]:
            raise ValueError(f"the body does not fit an event of kind {self.kind!r}")
        return self

    @classmethod
    def parse(cls, line: str | bytes) -> Self:
        """The line's event; raises :class:`ProtocolError` for anything but one."""
        return parse(cls, line, MAX_EVENT_BYTES)

    def dump(self) -> str:
        """One line of canonical JSON, no newline."""
        return canonical(self.model_dump(mode="json")).decode()
