"""Every address with hostile paths, queries, forms, headers and bodies, by every kind of visitor.

The answer is never a 500 and never takes long. Addresses are those of the site's own resolver, and
the names of parameters those that the source reads, so that a new one is asked here at once.
"""

from __future__ import annotations

import itertools
import json
import math
import re
import time
from collections.abc import Callable, Iterator

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.http import HttpResponse
from django.test import Client
from django.urls import URLPattern, URLResolver, get_resolver

from tests import factories
from tests.processes import ROOT
from tests.runs import scenes
from webapp.api import tokens

pytestmark = pytest.mark.django_db

HOSTILE = (
    "\x00",
    "\u202e31\u2066\u200b",
    "' OR 1=1 --",
    "<script>alert(1)</script>",
    "9" * 400,
    "../../../etc/passwd",
    "1e308,NaN,-1",
    "%00%ff\ufffe",
)
# What SQLite takes and PostgreSQL does not: NUL, lone halves, numbers beyond an integer's range.
REFUSED_BY_POSTGRESQL = ("\x00", "9" * 400, "1e308,NaN,-1", "%00%ff\ufffe")
VISITORS = ("anonymous", "reader", "other", "admin")
SECONDS = 2.0
# Ends the session, or is Django's own and asks for its own token.
APART = ("admin/", "static/")


def routes(patterns: list[URLPattern | URLResolver], before: str = "") -> Iterator[str]:
    for one in patterns:
        route = before + str(one.pattern)
        if isinstance(one, URLResolver):
            yield from routes(one.url_patterns, route)
        else:
            yield route


ADDRESSES = sorted({r for r in routes(get_resolver().url_patterns) if not r.startswith(APART)})
SOURCES = "".join(path.read_text() for path in (ROOT / "webapp").rglob("*.py"))
NAMES = set(re.findall(r"(?:GET|POST|query)\.get(?:list)?\(\s*\"(\w+)\"", SOURCES))
NAMES |= set(re.findall(r"^    (\w+) = forms\.\w+Field\(", SOURCES, re.MULTILINE))
VALID = {
    "uuid": "00000000-0000-4000-8000-000000000000",
    "arxiv": "2603.00001",
    "date": "2026-03-11",
    "day": "2026-03-11",
    "feed_format": "rss",
    "int": "1",
    "slug": "sparse_attention",
    "method": "sparse_attention",
}


def path(route: str, value: str, run: str) -> str:
    """The address of a route: what takes any text gets `value`, the rest something valid."""

    def fill(match: re.Match[str]) -> str:
        kind, _, _ = match[1].rpartition(":")
        known = {**VALID, "uuid": run}
        return known.get(kind, value)

    return "/" + re.sub(r"<([^>]+)>", fill, route).replace("^", "").replace("$", "")


def ask(client: Client, address: str, value: str, headers: dict[str, str]) -> Iterator[str]:
    """Send one hostile value everywhere; describe each wrong answer."""
    given = dict.fromkeys(sorted(NAMES), value)
    body = json.dumps({"method": value, "benchmark": value, "params": {value: [value]}})
    requests = {
        "GET": lambda: client.get(address, given, headers=headers),
        "POST": lambda: client.post(address, given, headers=headers),
    }
    # To a page any JSON is an empty form.
    if address.startswith("/api/") or value == HOSTILE[-1]:
        requests["JSON"] = lambda: client.post(address, body, "application/json", headers=headers)
    for name, send in requests.items():
        status, took = answer(send)
        # Without workers and a broker the site says that it is not ready.
        broken = status >= 500 and (status, address) != (503, "/readyz")
        if broken or took > SECONDS:
            yield f"{name} {address[:60]!r} with {value[:20]!r}: {status} in {took:.1f} s"


def answer(send: Callable[[], HttpResponse], most: float = SECONDS) -> tuple[int, float]:
    """Status and seconds by the clock, the quickest of three where it was late: a busy machine
    holds one answer up, not three in a row."""
    took = math.inf
    for _ in range(3):
        began = time.monotonic()
        status = send().status_code
        took = min(took, time.monotonic() - began)
        if took <= most:
            break
    return status, took


def test_a_page_that_sleeps_is_late() -> None:
    def sleep(seconds: float) -> HttpResponse:
        time.sleep(seconds)
        return HttpResponse()

    assert answer(lambda: sleep(0.6), 0.5)[1] > 0.5
    held_up_once = itertools.chain([0.6], itertools.repeat(0.0))
    assert answer(lambda: sleep(next(held_up_once)), 0.5)[1] < 0.5


def values(visitor: str, number: int) -> tuple[str, ...]:
    """Values that `visitor` sends to the address of that number.

    The reader sends every value to every address; the others a third each, another one to the next
    address, since who asks and what is asked seldom go wrong together. Another reader is another
    only where an address names what is whose. PostgreSQL meets NUL everywhere: of the others SQLite
    refuses the worst, too.
    """
    if visitor == "other" and "<" not in ADDRESSES[number]:
        return ()
    if connection.vendor == "postgresql":
        nul, *others = REFUSED_BY_POSTGRESQL
        return nul, others[number % len(others)]
    return HOSTILE if visitor == "reader" else HOSTILE[number % 3 :: 3]


# PostgreSQL refuses values that SQLite takes, whoever sends them.
@pytest.mark.parametrize("visitor", ["reader"] if connection.vendor == "postgresql" else VISITORS)
def test_no_input_breaks_a_page(visitor: str) -> None:
    users = {name: User.objects.create_user(name) for name in VISITORS[1:]}
    User.objects.filter(username="admin").update(is_staff=True, is_superuser=True)
    for number in range(3):
        factories.make_paper(number)
    run = str(scenes.measured(users["reader"]).pk)
    client, headers = Client(raise_request_exception=False), {"If-None-Match": '"\u00ff'}
    if visitor in users:
        client.force_login(users[visitor])
        headers["Authorization"] = f"Bearer {tokens.make(users[visitor], 'tests')}"
    wrong = []
    for number, route in enumerate(ADDRESSES):
        for value in values(visitor, number):
            hostile = {**headers, "Idempotency-Key": value.encode().decode("latin-1")}
            wrong += ask(client, path(route, value, run), value, hostile)
            if visitor in users and "_auth_user_id" not in client.session:
                client.force_login(users[visitor])  # it signed itself out
    assert wrong == []
