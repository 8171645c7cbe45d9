"""The trial method stands beside the real ones."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import methods
from tests.runs.rig import FIXTURE


@pytest.fixture(autouse=True, scope="package")
def _trial_method() -> Iterator[None]:
    patch = pytest.MonkeyPatch()
    patch.setattr(methods, "__path__", [*methods.__path__, str(FIXTURE)])
    yield
    patch.undo()
