"""Logs never hold what would let their reader in."""

from __future__ import annotations

import logging
from typing import Any

import pytest
from django.conf import settings
from django.test import Client

from webapp.core.logs import Formatter
from webapp.readers import links

KEY = "k" * 12


def line(message: str, *values: object) -> str:
    record = logging.LogRecord("x", logging.INFO, "f", 1, message, values, None)
    return Formatter("%(message)s", lambda: (KEY, "short")).format(record)


@pytest.mark.parametrize(
    ("told", "kept"),
    [
        (f"the server said no to {KEY}", "the server said no to …"),
        ("postgresql://assay:pa55word@db/assay", "postgresql://assay:…@db/assay"),
        ("redis://:pa55word@redis:6379/0", "redis://:…@redis:6379/0"),
        ("Authorization: Bearer abcdefgh.ijkl", "Authorization: Bearer …"),
        ("short words stay as they are: http://host:8000/a@b", None),
    ],
)
def test_what_a_line_hides(told: str, kept: str | None) -> None:
    assert line("%s", told) == (told if kept is None else kept)


def test_a_traceback_is_looked_through() -> None:
    try:
        raise ValueError(f"bad key {KEY}")
    except ValueError as error:
        record = logging.LogRecord("x", logging.ERROR, "f", 1, "failed", (), None)
        record.exc_info = (type(error), error, error.__traceback__)
    text = Formatter("%(message)s", lambda: (KEY,)).format(record)
    assert "bad key …" in text
    assert KEY not in text


@pytest.mark.django_db
def test_a_refused_sign_in_logs_no_valid_token(caplog: pytest.LogCaptureFixture) -> None:
    token = links.make_link(links.administrator())
    client = Client(enforce_csrf_checks=True)
    assert client.post(f"/sign-in/{token}/").status_code == 403
    options: dict[str, Any] = dict(settings.LOGGING["formatters"]["line"])
    formatter = options.pop("()")(**options)
    lines = "\n".join(formatter.format(record) for record in caplog.records)
    assert "/sign-in/…" in lines
    assert token not in lines
