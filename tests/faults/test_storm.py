"""A small storm of every fault at random over the real `up`."""

from __future__ import annotations

from typing import Any

import pytest

from tests.faults import storm
from tests.servers import stores


@pytest.mark.slow
@pytest.mark.parametrize("store", ["sqlite", "postgresql"])
def test_nothing_is_lost_or_done_twice(
    store: str, request: pytest.FixtureRequest, django_db_setup: None, django_db_blocker: Any
) -> None:
    database = ""
    if store == "postgresql":
        database = stores.new_database(request.getfixturevalue("postgresql_url"), "storm")
    with django_db_blocker.unblock():
        found = storm.run(runs=8, seed=1, database=database)
    assert {name: found[name] for name in storm.ZERO} == dict.fromkeys(storm.ZERO, 0)
    assert sum(found["ended"].values()) == 8
    assert found["acknowledged"] > 20, found["why"]
