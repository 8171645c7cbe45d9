"""One rig for all tests of a file that break one: each mends what another broke."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.runs.conftest import _trial_method  # noqa: F401 (a fixture)
from tests.runs.rig import Rig, standing


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The rig's tests of a file stay in one process: they wait more than they work, so one process
    for all would be the last to end, and another rig takes longer to start than most tests.
    """
    for item in items:
        if "standing_rig" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.xdist_group(item.path.stem))


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
