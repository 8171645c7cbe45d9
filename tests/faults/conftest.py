"""One rig for all tests of a file that break one: each mends what another broke."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.runs.conftest import _trial_method  # noqa: F401 (a fixture)
from tests.runs.rig import Rig, standing


@pytest.fixture
def rig(standing_rig: Rig) -> Rig:
    """Redis, recorder, beat and one bench worker called `one`, all of them up and heard of."""
    standing_rig.mend()
    return standing_rig


@pytest.fixture(scope="module")
def standing_rig(
    tmp_path_factory: pytest.TempPathFactory, django_db_setup: None, django_db_blocker
) -> Iterator[Rig]:
    """A site of its own; what a test kills in it, `rig` starts again.

    It ends with its file: what comes after in this process must not see its database.
    """
    with django_db_blocker.unblock(), standing(Rig(tmp_path_factory.mktemp("rig"))) as rig:
        yield rig
