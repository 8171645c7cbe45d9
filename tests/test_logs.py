"""Logs never hold what would let their reader in."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator
from secrets import token_urlsafe
from typing import Any

import pytest
from django.conf import settings
from django.core import signing
from django.test import Client
from django.urls import URLResolver, get_resolver

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
        ("redis://:p@ss@w0rd@redis:6379/0 away", "redis://:…@redis:6379/0 away"),
        ("smtp://u:p@ss@host/a@b", "smtp://u:…@host/a@b"),
        ("https://ghp_0123456789abcdef@host/x", "https://…@host/x"),
        ("ssh://git@host/x", None),
        ("Authorization: Bearer abcdefgh.ijkl", "Authorization: Bearer …"),
        ("Authorization: Basic dXNlcjpwYXNz", "Authorization: Basic …"),
        ("authorization=Basic dXNlcjpwYXNzdw== sent", "authorization=Basic … sent"),
        ("{'Authorization': 'Basic dXNlcjpwYXNz', 'A': 1}", "{'Authorization': 'Basic …', 'A': 1}"),
        ("(b'Authorization', b'Basic dXNlcjpwYXNz')", "(b'Authorization', b'Basic …')"),
        ("Proxy-Authorization: Basic dXNlcjpwYXNz", "Proxy-Authorization: Basic …"),
        ("Authorization: 0123456789abcdef", "Authorization: …"),
        ("it sent Basic dXNlcjpwYXNzMQ==", "it sent Basic …"),
        ("Authorization failed: basic information is missing", None),
        ("short words stay as they are: http://host:8000/a@b", None),
    ],
)
def test_what_a_line_hides(told: str, kept: str | None) -> None:
    assert line("%s", told) == (told if kept is None else kept)


def tokens_in_addresses(patterns: list[Any], before: str = "") -> Iterator[str]:
    """Return the addresses of the site that let in whoever has them, with such a token."""
    for pattern in patterns:
        route = before + str(pattern.pattern)
        if isinstance(pattern, URLResolver):
            yield from tokens_in_addresses(pattern.url_patterns, route)
        elif "str:token>" in route or "str:key>" in route:
            yield "/" + re.sub(r"<str:\w+>", "{}", route).replace("<suffix:suffix>", "rss")


def test_no_address_that_lets_in_is_logged_whole() -> None:
    addresses = list(tokens_in_addresses(get_resolver().url_patterns))
    assert len(addresses) == 6
    for address in addresses:
        for token in (token_urlsafe(16), signing.dumps([1, "2512.12345"], salt="any")):
            assert token not in line("GET %s", address.format(token)), address


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
