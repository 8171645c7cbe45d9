"""Pages kept for the anonymous: same bytes, right encoding, never another reader's."""

import gzip
import re
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from threading import Barrier, Event, Thread
from time import sleep

import brotli
import pytest
from django.contrib.auth.models import AnonymousUser, User
from django.http import HttpResponse
from django.middleware.http import ConditionalGetMiddleware
from django.test import Client, RequestFactory

from webapp.ui import encodings, pages
from webapp.ui.pages import respond, respond_public

BODY = b"<p>a page</p>" * 50


def get(stamp="one", path="/", body=BODY, status=200, **headers):
    request = RequestFactory(headers=headers).get(path)
    request.user = AnonymousUser()
    made = []

    def render():
        made.append(path)
        return HttpResponse(body, status=status)

    answer = ConditionalGetMiddleware(lambda _request: respond(request, stamp, render))
    return answer(request), len(made)


def test_the_same_stamp_renders_once():
    first, made = get()
    again, made_again = get()
    assert (made, made_again) == (1, 0)
    assert again.content == first.content == BODY
    assert again["ETag"] == first["ETag"]


def test_another_stamp_or_address_renders_anew():
    get()
    assert get(stamp="two")[1] == 1
    assert get(path="/?keyword=x")[1] == 1


@pytest.mark.parametrize(
    ("accepted", "encoding"),
    [
        ("gzip, deflate, br", "br"),
        ("gzip", "gzip"),
        ("br;q=0, gzip;q=0.5", "gzip"),
        ("br", "br"),
        ("br;q=0.5, gzip;q=1.0", "gzip"),
        ("*", "br"),
        ("br; q=0.000, *;q=0.1", "gzip"),
        ("*;q=0", ""),
        ("identity", ""),
        ("", ""),
        ("x" * 9000, ""),
    ],
)
def test_the_client_chooses_the_encoding(accepted, encoding):
    response, _ = get(**{"accept-encoding": accepted})
    assert response.get("Content-Encoding", "") == encoding
    body = response.content
    if encoding == "br":
        body = brotli.decompress(body)
    if encoding == "gzip":
        import gzip

        body = gzip.decompress(body)
    assert body == BODY
    assert "Accept-Encoding" in response["Vary"]


@pytest.mark.parametrize("accepted", ["", "gzip", "br"])
def test_another_stamp_is_another_body_in_every_encoding(accepted):
    unpacked = {"": bytes, "gzip": gzip.decompress, "br": brotli.decompress}[accepted]
    for stamp in ("one", "two"):
        body = BODY + stamp.encode()
        assert unpacked(get(stamp, body=body, **{"accept-encoding": accepted})[0].content) == body


def test_tags_differ_by_encoding_and_answer_304():
    plain, _ = get()
    packed, _ = get(**{"accept-encoding": "br"})
    assert plain["ETag"] != packed["ETag"]
    unchanged, made = get(**{"accept-encoding": "br", "if-none-match": packed["ETag"]})
    assert (unchanged.status_code, unchanged.content, made) == (304, b"", 0)
    assert unchanged["ETag"] == packed["ETag"]
    other, _ = get(**{"accept-encoding": "br", "if-none-match": plain["ETag"]})
    assert other.status_code == 200


def test_who_carries_a_session_is_never_answered_from_memory():
    get()
    request = RequestFactory().get("/")
    request.COOKIES["sessionid"] = "abc"
    response = respond(request, "one", lambda: HttpResponse(b"mine"))
    assert response.content == b"mine"
    assert response["Cache-Control"] == "private, no-cache"
    assert "Cookie" in response["Vary"]
    assert get()[0].content == BODY


def test_failures_are_not_kept():
    assert get(status=404)[0].status_code == 404
    assert get()[1] == 1


def test_the_cache_forgets_the_least_recently_read(monkeypatch):
    monkeypatch.setattr(pages.cache, "_Cache__maxsize", 2 * len(BODY))
    for path in ("/a", "/b", "/a", "/c"):
        get(path=path)
    assert [get(path=path)[1] for path in ("/a", "/c", "/b")] == [0, 0, 1]


def test_a_page_above_the_limit_is_not_kept(monkeypatch):
    monkeypatch.setattr(pages.cache, "_Cache__maxsize", len(BODY) - 1)
    assert [get()[1], get()[1]] == [1, 1]


def at_once(readers: int, render: Callable[[], HttpResponse]) -> list[HttpResponse]:
    """The responses to `readers` who request one page at the same moment."""
    begin, answers = Barrier(readers), []

    def ask() -> None:
        begin.wait()
        with suppress(RuntimeError):
            answers.append(respond_public(RequestFactory().get("/"), "one", render))

    threads = [Thread(target=ask) for _ in range(readers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return answers


def test_of_eight_readers_of_a_changed_page_one_makes_it():
    made = []

    def render() -> HttpResponse:
        made.append(1)
        sleep(0.2)
        return HttpResponse(BODY)

    answers = at_once(8, render)
    assert [answer.content for answer in answers] == [BODY] * 8
    assert len(made) == 1


@pytest.mark.parametrize("status", [200, 500])
def test_who_waits_for_a_page_that_fails_makes_their_own(status: int):
    made = []

    def render() -> HttpResponse:
        made.append(1)
        if len(made) == 1:
            sleep(0.2)
            if status == 200:
                raise RuntimeError
            return HttpResponse(status=status)
        return HttpResponse(BODY)

    answers = at_once(4, render)
    assert [one.content for one in answers if one.status_code == 200] == [BODY] * 3


def test_nobody_waits_for_ever(monkeypatch):
    monkeypatch.setattr(pages, "PATIENCE", 0.05)
    made, release = [], Event()

    def render() -> HttpResponse:
        made.append(1)
        if len(made) == 1:
            release.wait()
        else:
            release.set()
        return HttpResponse(BODY)

    assert [answer.content for answer in at_once(2, render)] == [BODY] * 2
    assert len(made) == 2


def test_what_changes_often_is_compressed_quickly():
    body = Path("README.md").read_bytes()
    request = RequestFactory(headers={"accept-encoding": "br"}).get("/")
    small, large = (
        respond_public(request, effort, lambda: HttpResponse(body), effort).content
        for effort in (pages.EFFORT, encodings.QUICK_EFFORT)
    )
    assert brotli.decompress(large) == brotli.decompress(small) == body
    assert len(small) < len(large)


@pytest.mark.django_db
def test_the_menu_marks_the_page_that_is_shown(client: Client) -> None:
    client.force_login(User.objects.create_user("ada"))
    marked = {
        "/": "/",
        "/methods/": "/methods/",
        "/methods/seps/": "/methods/",
        "/runs/": "/methods/",
        "/library/": "/library/",
        "/search": "/search",
        "/feeds/": None,
        "/account/": "/account/",
        "/help/": None,
    }
    for address, link in marked.items():
        menu = client.get(address).content.decode().partition("<main")[0]
        found = re.findall(r'<a href="([^"]*)"\s+aria-current="page"\s*>', menu)
        assert found == ([link] if link else []), address
        assert ('role="search"' in menu) is (address != "/search"), address
    assert 'role="search"' not in client.get("/search").content.decode().partition("<main")[0]


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("accepted", "encoding"), [("br", "br"), ("br, gzip", "gzip"), ("br;q=0", ""), ("", "")]
)
def test_pages_that_are_not_kept_are_compressed_too(client, accepted, encoding):
    plain = client.get("/help/")
    packed = client.get("/help/", headers={"accept-encoding": accepted})
    assert packed.get("Content-Encoding", "") == encoding
    unpack = {"br": brotli.decompress, "gzip": gzip.decompress, "": bytes}[encoding]
    assert unpack(packed.content).partition(b"<body")[0] == plain.content.partition(b"<body")[0]
    if encoding:
        assert packed["Content-Length"] == str(len(packed.content))
        assert packed["ETag"].startswith("W/"), "the tag names the bytes of another encoding"
        assert "Accept-Encoding" in packed["Vary"]
