"""Sentences that a run's page composes are Chinese for readers of Chinese."""

from __future__ import annotations

import re

import pytest
from django.test import Client
from django.utils import translation

from methods.protocol import Flag, Point
from tests.runs import scenes
from webapp.runs.models import State
from webapp.runs.queries import QueuePosition
from webapp.runs.web.present import checks_of, findings, title_of

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize(
    "where", [QueuePosition(0, 1), QueuePosition(1, 1), QueuePosition(3, 1), QueuePosition(0, 0)]
)
def test_where_a_waiting_run_stands(where: QueuePosition) -> None:
    run = scenes.measured()
    run.state = State.QUEUED
    with translation.override("zh-hans"):
        assert not re.search("[A-Za-z]", title_of(run, where, behind=False))
    assert title_of(run, where, behind=False).startswith("Queued again, ")


def test_what_a_run_found(client: Client) -> None:
    run = scenes.measured()
    run.result["stopped"], run.result["processes"] = "time", 7
    points: tuple[Point, ...] = tuple(
        point.model_copy(update={"flags": (Flag.BUSY, Flag.UNSTEADY)})
        for point in scenes.latency().points
    )
    series = [scenes.latency().model_copy(update={"points": points})]
    english = findings(run, series, checks_of(run))
    with translation.override("zh-hans"):
        found = findings(run, series, checks_of(run))
    assert "busy machine at" in english["Doubts"]
    for line in (found["Checks"], found["Doubts"]):
        assert not re.search("[A-Za-z]", line), line
    assert "times as" not in found["Headline"]
    assert "共 7 个进程" in found["Doubts"]
