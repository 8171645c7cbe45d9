"""Keep the trial method beside the real ones, and workers alive."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

import pytest

import methods
from tests.processes import PATIENCE
from tests.runs.rig import FIXTURE
from webapp.runs import queries


@pytest.fixture(autouse=True, scope="package")
def _trial_method() -> Iterator[None]:
    patch = pytest.MonkeyPatch()
    patch.setattr(methods, "__path__", [*methods.__path__, str(FIXTURE)])
    yield
    patch.undo()


@pytest.fixture(autouse=True)
def _a_busy_machine_silences_no_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    """A page of a test may take longer than the seconds in which a worker must be heard."""
    monkeypatch.setattr(queries, "ALIVE", timedelta(seconds=PATIENCE))
