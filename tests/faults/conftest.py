"""Rigs: one a module and transport, shared by tests that mend what they break."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import machine
from tests.runs.conftest import _trial_method  # noqa: F401 (a fixture)
from tests.runs.rig import Redis, Rig, free_port


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The tests of a rig stay in one process: another rig takes longer to start than most take."""
    for item in items:
        if "standing_rig" in getattr(item, "fixturenames", ()):
            transport = item.callspec.params["standing_rig"]
            item.add_marker(pytest.mark.xdist_group(f"{item.path.stem}-{transport}"))


@pytest.fixture
def rig(standing_rig: Rig) -> Rig:
    """Recorder, clock and one worker called `one`, all of them up and heard of."""
    standing_rig.mend()
    return standing_rig


@pytest.fixture(scope="module", params=["filesystem", "redis"])
def standing_rig(
    request: pytest.FixtureRequest,
    tmp_path_factory: pytest.TempPathFactory,
    django_db_blocker,
) -> Iterator[Rig]:
    """A site of its own on each transport; what a test kills in it, `rig` starts again."""
    redis = None
    if request.param == "redis":
        if not (program := machine.REDIS.find()):
            pytest.skip(machine.REDIS.why_not)
        redis = Redis(program, Path(tmp_path_factory.mktemp("redis")), free_port())
        redis.start()
    rig = Rig(tmp_path_factory.mktemp("rig"), redis.url if redis else "", redis=redis)
    with django_db_blocker.unblock(), rig.connected():
        try:
            rig.migrate()
            yield rig
        finally:
            rig.stop()
            if redis:
                redis.kill()
