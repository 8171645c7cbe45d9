"""One text cleaner at the edge: what hides, reorders or breaks never reaches a view or a row."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.auth.models import User
from django.http import HttpRequest, HttpResponse, QueryDict
from django.test import Client, RequestFactory

from assay_common.text import clean, clean_json, one_line
from webapp.core.input import CleanInputMiddleware, number_in

HOSTILE = (
    "\x00",
    "\x07",
    "\x1b[31m",
    "\u202e",
    "\u200b",
    "\u2066",
    "\ufeff",
    "\ud800",
    "\U000e0041",
)


@pytest.mark.parametrize("character", HOSTILE, ids=ascii)
def test_what_is_not_seen_goes(character: str) -> None:
    assert clean(f"3{character}.5×") == "3.5×"
    assert clean_json({f"a{character}": [f"b{character}", 1, None]}) == {"a": ["b", 1, None]}


def test_what_is_seen_stays() -> None:
    text = "Łukasz Wójcik: $x_1 < y$ 中文 👍 naïve\n\tنص"
    assert clean(text) == text
    assert clean("a\r\nb\rc\u2028d") == "a\nb\nc\nd"
    assert one_line(" a\n\u200b b\t") == "a b"


def seen(request: HttpRequest) -> tuple[dict[str, Any], dict[str, Any]]:
    """The request data that a view receives."""
    given: list[HttpRequest] = []

    def view(request: HttpRequest) -> HttpResponse:
        given.append(request)
        return HttpResponse()

    CleanInputMiddleware(view)(request)
    return dict(given[0].GET.lists()), dict(given[0].POST.lists())


def test_a_view_is_given_clean_texts() -> None:
    query = QueryDict(mutable=True)
    query["q\u200b"] = "a\x00b\u202e"
    request = RequestFactory().post(f"/?{query.urlencode()}", {"name": "c\x00d", "lines": "e\r\nf"})
    assert seen(request) == ({"q": ["ab"]}, {"name": ["cd"], "lines": ["e\nf"]})


@pytest.mark.django_db
@pytest.mark.parametrize("path", ["/papers/%00/", "/sign-in/a%E2%80%AEb/", "/p/x%1b/", "/%00"])
def test_an_address_with_unseen_characters_is_nobodys(client: Client, path: str) -> None:
    assert client.get(path).status_code == 404


@pytest.mark.django_db
def test_a_search_for_nul_answers(client: Client) -> None:
    client.force_login(User.objects.create_user("ada"))
    assert client.get("/search?q=%00sparse%00&category=%00").status_code == 200


@pytest.mark.parametrize("text", ["", "-1", "1.5", "123456789x", "9" * 10, "9" * 5000, "½", "²"])
@pytest.mark.django_db
def test_what_is_no_number_of_a_row_names_none(client: Client, text: str) -> None:
    assert number_in(text) == 0
    client.force_login(User.objects.create_superuser("admin"))
    for where, field in (
        ("/account/readers/", "off"),
        ("/account/mail/", "end"),
        ("/account/tokens/", "revoke"),
    ):
        assert client.post(where, {field: text}).status_code < 500, where
    for where in ("/library/?list=", "/search?q=x&page="):
        assert client.get(f"{where}{text}").status_code == 200, where


def test_a_number_is_read_in_any_script() -> None:
    assert [number_in(text) for text in ("7", "0", "999999999", "٣")] == [7, 0, 999999999, 3]
