"""Requests made from the OpenAPI document, right and wrong ones: every answer is as it says."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest
import schemathesis
from django.contrib.auth.models import User
from django.core.signals import request_finished, request_started
from django.db import close_old_connections
from hypothesis import given, settings
from hypothesis.errors import Unsatisfiable
from schemathesis import GenerationMode

from tests.runs import scenes
from webapp.api import tokens
from webapp.core import limits
from webapp.wsgi import application

pytestmark = pytest.mark.django_db

# Of names and parameters the document says less than a benchmark does: 404, 409 and 422 are right.
ACCEPTED = ["2xx", "401", "403", "404", "409", "422"]
CONFIG = schemathesis.Config.from_dict(
    {"checks": {"positive_data_acceptance": {"expected-statuses": ACCEPTED}}}
)
DOCUMENT = schemathesis.openapi.from_wsgi("/api/v1/openapi.json", application, config=CONFIG)
OPERATIONS = [found.ok() for found in DOCUMENT.get_all_operations()]


@pytest.fixture(autouse=True)
def _one_connection() -> Iterator[None]:
    """As Django's own client: a request leaves the test its connection, and what is in it."""
    request_started.disconnect(close_old_connections)
    request_finished.disconnect(close_old_connections)
    yield
    request_started.connect(close_old_connections)
    request_finished.connect(close_old_connections)


@pytest.mark.parametrize("mode", list(GenerationMode), ids=lambda mode: mode.value)
@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda operation: operation.label)
def test_every_answer_is_declared(
    operation: Any, mode: GenerationMode, monkeypatch: pytest.MonkeyPatch
) -> None:
    # It asks more often than a token may.
    monkeypatch.setattr(limits._Away, "until", float("inf"))
    reader = User.objects.create_user("reader")
    run = scenes.measured(reader)
    headers = {"Authorization": f"Bearer {tokens.make(reader, 'tests')}"}
    headers["Accept-Encoding"] = "identity"
    refused = []

    @settings(max_examples=15, derandomize=True, deadline=None)
    @given(case=operation.as_strategy(generation_mode=mode))
    def ask(case: schemathesis.Case) -> None:
        if mode == GenerationMode.POSITIVE and "pk" in case.path_parameters:
            case.path_parameters["pk"] = str(run.pk)
        response = case.call_and_validate(headers=headers)
        if response.status_code >= 400:
            refused.append(response.headers["content-type"])

    with suppress(Unsatisfiable):  # nothing can be wrong with what takes nothing
        ask()
    assert refused == [["application/problem+json"]] * len(refused)
