"""Rate limits of one reader or one address, on a real Redis and real pages."""

from __future__ import annotations

import itertools
import re
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client, RequestFactory
from django.urls import reverse
from redis import Redis

from tests import factories
from tests.mail.conftest import Inbox
from tests.mail.conftest import inbox as inbox  # noqa: PLC0414 - a fixture
from tests.processes import ROOT, wait_for
from webapp.core import limits, tasks
from webapp.core.limits import LIMITS, LimitReachedError, spend
from webapp.runs.models import Run
from webapp.summaries.models import Summary

STRANGER = "203.0.113.7"
COUNTED = f"address {STRANGER}"


@pytest.fixture
def redis(redis_url: str, settings: Any) -> Redis:
    """The broker, in which nobody has asked for anything yet."""
    settings.CELERY_BROKER_URL = redis_url.removesuffix("/0") + "/8"
    server = Redis.from_url(settings.CELERY_BROKER_URL)
    server.flushdb()
    limits._Away.until = 0.0  # another test of this process may have stopped its Redis
    return server


@pytest.mark.parametrize("name", LIMITS)
def test_each_limit_is_reached_said_and_over_after_its_time(name: str, redis: Redis) -> None:
    limit = LIMITS[name]
    spend(name, "somebody", limit.most)
    with pytest.raises(LimitReachedError) as reached:
        spend(name, "somebody")
    assert f"{limit.most:,}" in str(reached.value)
    assert 0 < reached.value.seconds <= limit.seconds
    spend(name, "somebody else")
    [key] = [key for key in redis.keys("limit:*") if key.endswith(b":somebody")]
    assert 0 < redis.ttl(key) <= limit.seconds
    redis.pexpire(key, 1)
    wait_for(lambda: not redis.exists(key), "its end")
    spend(name, "somebody", limit.most)


def test_what_is_refused_takes_nothing_away(redis: Redis) -> None:
    most = LIMITS["lookups"].most
    spend("lookups", "somebody", most - 10)
    for _ in range(3):
        with pytest.raises(LimitReachedError):
            spend("lookups", "somebody", 11)
    spend("lookups", "somebody", 10)
    with pytest.raises(LimitReachedError):
        spend("lookups", "somebody")


@pytest.mark.usefixtures("redis")
def test_many_at_once_get_no_more_than_one_after_the_other() -> None:
    def ask(_: int) -> bool:
        try:
            spend("searches", "somebody")
        except LimitReachedError:
            return False
        return True

    with ThreadPoolExecutor(16) as threads:
        assert sum(threads.map(ask, range(400))) == LIMITS["searches"].most


def test_without_redis_nobody_is_refused(settings: Any, caplog: pytest.LogCaptureFixture) -> None:
    settings.CELERY_BROKER_URL = "redis://127.0.0.1:9/0"
    for _ in range(2 * LIMITS["imports"].most):
        spend("imports", "somebody")
    assert caplog.text.count("Limits are not counted") == 1


def test_nobody_in_particular_is_not_counted(redis: Redis) -> None:
    for _ in range(2 * LIMITS["searches"].most):
        spend("searches", "")
    assert not redis.keys("limit:*")


@pytest.mark.parametrize(
    ("https", "meta", "expected"),
    [
        (False, {"REMOTE_ADDR": STRANGER}, COUNTED),
        (False, {"REMOTE_ADDR": "127.0.0.1"}, ""),
        (False, {"REMOTE_ADDR": "::1"}, ""),
        (False, {"REMOTE_ADDR": ""}, ""),  # a Unix socket
        # Without a proxy that is trusted anybody can write this header.
        (False, {"REMOTE_ADDR": STRANGER, "HTTP_X_FORWARDED_FOR": "1.1.1.1"}, COUNTED),
        # The proxy adds whom it hears last; what stands before is the sender's own.
        (True, {"REMOTE_ADDR": "10.0.0.1", "HTTP_X_FORWARDED_FOR": STRANGER}, COUNTED),
        (
            True,
            {"REMOTE_ADDR": "10.0.0.1", "HTTP_X_FORWARDED_FOR": f"1.1.1.1, {STRANGER}"},
            COUNTED,
        ),
        # All look alike behind a proxy that does not say who they are: none may stop the others.
        (True, {"REMOTE_ADDR": "10.0.0.1"}, ""),
        (True, {"REMOTE_ADDR": "10.0.0.1", "HTTP_X_FORWARDED_FOR": "hello"}, ""),
        # Whoever has one address of IPv6 has 2**64.
        (False, {"REMOTE_ADDR": "2001:db8:1:2:3:4:5:6"}, "address 2001:db8:1:2::"),
        (False, {"REMOTE_ADDR": "::ffff:203.0.113.7"}, COUNTED),
    ],
)
def test_whose_request_it_is(
    https: bool, meta: dict[str, str], expected: str, settings: Any
) -> None:
    settings.BEHIND_PROXY = https
    request = RequestFactory().get("/", **meta)
    assert limits.visitor(request) == expected


def test_the_table_is_printed_in_the_documents() -> None:
    written = (ROOT / "docs" / "security.md").read_text()
    rows = re.findall(r"^\| ([^|]+) \| ([^|]+) \| ([^|]+) \|$", written, re.MULTILINE)
    for limit in LIMITS.values():
        assert (limit.what, f"{limit.most:,} {limit.span}", limit.whom) in rows


# Each page that asks something of what all share.


def many(client: Client, most: int, ask: Any) -> Any:
    """The response after the limit was reached."""
    for _ in range(most):
        assert ask().status_code != 429
    return ask()


def refused(response: Any, seconds: int) -> None:
    assert response.status_code == 429
    assert 0 < int(response["Retry-After"]) <= seconds
    assert "limit" in response.content.decode()


@pytest.mark.django_db
@pytest.mark.usefixtures("redis")
@pytest.mark.parametrize("path", ["/search?q=sparse", "/search.rss?q=sparse", "/api/v1/papers?q=a"])
def test_searches_of_an_address(client: Client, path: str) -> None:
    paths = (f"{path}{number}" for number in itertools.count())  # what is kept costs nobody
    # A busy machine answers fewer than all of them in a minute.
    spend("searches", COUNTED, LIMITS["searches"].most - 3)
    last = many(client, 3, lambda: client.get(next(paths), REMOTE_ADDR=STRANGER))
    refused(last, 60)
    assert client.get(next(paths), REMOTE_ADDR="203.0.113.8").status_code == 200
    # Reading goes on.
    assert client.get("/methods/", REMOTE_ADDR=STRANGER).status_code == 200


@pytest.mark.django_db
@pytest.mark.usefixtures("redis")
def test_a_program_is_told_as_a_problem(client: Client) -> None:
    spend("searches", f"address {STRANGER}", LIMITS["searches"].most)
    last = client.get("/api/v1/papers?q=a", REMOTE_ADDR=STRANGER)
    assert last["Content-Type"] == "application/problem+json"
    assert last.json()["status"] == 429
    assert "60" in last.json()["detail"]


@pytest.fixture
def reader(client: Client) -> User:
    reader: User = factories.make_reader()
    client.force_login(reader)
    return reader


@pytest.mark.django_db
@pytest.mark.usefixtures("redis")
def test_imports_of_a_reader(client: Client, reader: User) -> None:
    paper = factories.make_paper()
    last = many(
        client,
        LIMITS["imports"].most,
        lambda: client.post("/library/import/", {"text": paper.arxiv_id}),
    )
    refused(last, LIMITS["imports"].seconds)


@pytest.mark.django_db
def test_lookups_of_a_reader_are_no_more_than_a_days(
    client: Client, reader: User, redis: Redis
) -> None:
    """Thirty imports of a thousand papers put 150 lookups on a queue once."""
    tasks.app.cache_clear()
    paper = factories.make_paper()
    for tens in range(LIMITS["lookups"].most // 999 + 2):
        ids = "\n".join(f"25{tens:02d}.00{number:03d}" for number in range(1, 1000))
        page = client.post("/library/import/", {"text": f"{paper.arxiv_id}\n{ids}"})
        assert page.status_code == 200
    tasks.app.cache_clear()
    queues = [key for key in redis.scan_iter() if redis.type(key) == b"list"]
    assert 0 < sum(redis.llen(key) for key in queues) <= LIMITS["lookups"].most // 200
    page = page.content.decode()
    assert "The limit is 2,000 papers looked up at arXiv a day." in page
    assert "not requested" in page


@pytest.mark.django_db
@pytest.mark.usefixtures("redis")
def test_exports_of_a_reader(client: Client, reader: User) -> None:
    assert reader
    last = many(client, LIMITS["exports"].most, lambda: client.get("/library.bib"))
    refused(last, LIMITS["exports"].seconds)


@pytest.mark.django_db
@pytest.mark.usefixtures("redis")
def test_the_model_is_asked_by_each_reader_so_often(
    client: Client, reader: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ASSAY_SUMMARY_MODEL", "a-model")
    paper = factories.make_paper()
    ask = reverse("summaries:ask", args=[paper.arxiv_id])
    spend("summaries", f"reader {reader.pk}", LIMITS["summaries"].most - 1)
    assert client.post(ask).status_code == 302
    Summary.objects.all().delete()
    refused(client.post(ask), LIMITS["summaries"].seconds)
    assert not Summary.objects.exists()
    client.force_login(factories.make_reader("other"))
    assert client.post(ask).status_code == 302


@pytest.mark.django_db
@pytest.mark.usefixtures("redis")
@pytest.mark.parametrize(
    ("name", "path", "sent"),
    [
        ("tables", "/summaries/{paper}/tables", {}),
        (
            "runs",
            "/methods/sparse_attention/run/latency/",
            {"preset": "quick", "device": "cpu", "seed": "0"},
        ),
    ],
)
def test_what_a_reader_asks_for(
    name: str, path: str, sent: dict[str, Any], client: Client, reader: User
) -> None:
    paper, mine = factories.make_paper(), factories.make_profile("mine", owner=reader)
    spend(name, f"reader {reader.pk}", LIMITS[name].most)
    path = path.format(paper=paper.arxiv_id, profile=mine.slug)
    refused(client.post(path, sent), LIMITS[name].seconds)
    assert not Run.objects.exists()


@pytest.mark.django_db
@pytest.mark.usefixtures("redis")
def test_a_stranger_gets_few_mails(client: Client, inbox: Inbox) -> None:
    """Sixty mails to confirm an address went to somebody who never asked for any."""
    most = LIMITS["mailbox"].most
    for number in range(3):
        client.force_login(factories.make_reader(f"reader{number}"))
        for spelling in ("Stranger@home.example", "stranger@home.example "):
            client.post("/account/mail/", {"address": spelling})
    assert len(inbox.mails) == most
    page = client.get("/account/mail/").content.decode()
    assert f"The limit is {most} mails to an address that nobody has confirmed a day" in page


@pytest.mark.django_db
@pytest.mark.usefixtures("redis")
def test_a_reader_writes_to_few_strangers(client: Client, inbox: Inbox, reader: User) -> None:
    assert reader
    for number in range(20):
        client.post("/account/mail/", {"address": f"stranger{number}@home.example"})
    assert len(inbox.mails) == LIMITS["confirmations"].most


@pytest.mark.django_db
@pytest.mark.usefixtures("redis", "inbox")
def test_sign_in_links_for_an_address(client: Client) -> None:
    sent = {"address": "nobody@home.example"}
    last = many(
        client,
        LIMITS["sign-in links"].most,
        lambda: client.post("/sign-in/", sent, REMOTE_ADDR=STRANGER),
    )
    refused(last, LIMITS["sign-in links"].seconds)
