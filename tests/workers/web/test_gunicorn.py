"""How many processes serve the site."""

import runpy

import pytest

from workers.web import gunicorn


@pytest.mark.parametrize(("given", "least", "most"), [("0", 2, 4), ("", 2, 4), ("1", 1, 1)])
def test_the_number_of_processes(
    monkeypatch: pytest.MonkeyPatch, given: str, least: int, most: int
) -> None:
    """Zero, the documented default, is not taken for a server without processes."""
    monkeypatch.setenv("WEB_CONCURRENCY", given)
    assert least <= runpy.run_path(gunicorn.__file__)["workers"] <= most
