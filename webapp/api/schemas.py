"""What goes in and comes out, as the OpenAPI document describes it."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal
from uuid import UUID

from ninja import Schema
from pydantic import ConfigDict, Field

from webapp.runs.submit import MAX_SEED


class RunRequest(Schema):
    """A run to ask for: a preset, and what differs from it."""

    model_config = ConfigDict(extra="forbid")

    method: str = Field(max_length=64, examples=["sparse_attention"])
    benchmark: str = Field(max_length=64, examples=["latency"])
    preset: Literal["smoke", "standard", "full"] = "smoke"
    params: dict[str, Any] = Field(
        default_factory=dict, description="Parameters that differ from the preset's."
    )
    seed: int = Field(0, ge=0, le=MAX_SEED)
    device: Literal["cpu", "gpu"] = "cpu"


class RunStatus(Schema):
    """Where a run stands."""

    id: UUID
    url: str = Field(description="The run's page.")
    method: str
    benchmark: str
    version: int
    preset: str
    params: dict[str, Any]
    seed: int
    device: str
    state: str = Field(
        description="queued, dispatched, running, cancelling; ended: succeeded, failed, "
        "timed_out, cancelled."
    )
    ended: bool
    failure: str
    reason: str
    attempt: int
    imported: bool
    limit_seconds: int
    queued_at: datetime | None
    started_at: datetime | None
    finished_at: datetime | None
    worker: str | None
    progress: dict[str, Any] | None


class RunResults(RunStatus):
    """Everything of a run: what it measured, on what, and the command that repeats it."""

    command: str
    hardware: str | None
    environment: dict[str, Any] | None
    result: dict[str, Any] | None
    checks: list[dict[str, Any]]
    series: list[dict[str, Any]]
    artefacts: list[dict[str, Any]]


class Problem(Schema):
    """Why a request was refused (RFC 9457)."""

    type: str
    title: str
    status: int
    detail: str
    errors: list[dict[str, Any]] | None = Field(
        None, description="Of parameters: name, given, allowed, reason."
    )


class ParameterSchema(Schema):
    """One parameter of a benchmark."""

    name: str
    help: str
    unit: str
    allowed: str
    presets: dict[str, Any]


class BenchmarkSchema(Schema):
    """What can be measured."""

    slug: str
    title: str
    description: str
    version: int
    devices: list[str]
    parameters: list[ParameterSchema]


class MethodSchema(Schema):
    """A method and its benchmarks."""

    slug: str
    title: str
    description: str
    benchmarks: list[BenchmarkSchema]
