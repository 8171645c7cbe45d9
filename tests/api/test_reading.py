"""The reading API: papers, digests, profiles, claims and the reader's library."""

from __future__ import annotations

import json
from io import StringIO
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.management import call_command
from django.test import Client

from tests import factories
from webapp.api import reading, tokens
from webapp.catalog import linking
from webapp.library.models import LibraryEntry, Star
from webapp.papers.models import Paper

pytestmark = pytest.mark.django_db
V1 = "/api/v1"
RESULTS = "benchmarks/results/sparse_attention/latency.jsonl"


@pytest.fixture
def reader() -> User:
    factories.make_day(30)
    made: User = factories.make_reader()
    return made


def get(path: str, token: str = "", **headers: str) -> Any:
    given = {"Authorization": f"Bearer {token}"} if token else {}
    return Client().get(f"{V1}{path}", headers=given | headers)


def patch(path: str, token: str, **wanted: object) -> Any:
    given = {"Authorization": f"Bearer {token}"}
    return Client(enforce_csrf_checks=True).patch(
        f"{V1}{path}", json.dumps(wanted), "application/json", headers=given
    )


@pytest.mark.usefixtures("reader")
def test_papers_are_found_page_by_page() -> None:
    for number in range(30):
        factories.make_paper(100 + number, title=f"A zebra of the herd {number}")
    first = get("/papers?q=zebra&order=newest").json()
    second = get(f"/papers?q=zebra&order=newest&page={first['next']}").json()
    ids = [one["id"] for page in (first, second) for one in page["items"]]
    assert len(ids) == len(set(ids)) == first["count"] == 30
    assert second["next"] is None
    assert get("/papers?q=atention").json()["suggestion"] in {"attention", ""}
    for wrong in ("", "?q=x&page=0", "?q=x&order=best", "?q=x&since=never"):
        assert get(f"/papers{wrong}").status_code == 422
    absent = get("/papers/2603.00001v2")
    assert absent.status_code == 404
    assert "2603.00001 has no version 2" in absent.content.decode()
    for name in ("https://arxiv.org/abs/2603.00001v1", "10.48550/arXiv.2603.00001"):
        assert get(f"/papers/{name}").json()["id"] == "2603.00001"
    one = get("/papers/2603.00001v1").json()
    assert one["id"] == "2603.00001"
    assert one["quotes"]
    assert get("/papers/2612.99999").status_code == 404
    assert get("/papers/none").headers["Content-Type"].startswith("application/problem+json")


@pytest.mark.usefixtures("reader")
def test_a_digest_says_why() -> None:
    latest = get("/digests/site").json()
    assert latest["date"] == factories.DAY.isoformat()
    assert [one["rank"] for one in latest["entries"]] == list(range(1, 31))
    first = latest["entries"][0]
    assert sum(match["points"] for match in first["matches"]) == first["score"]
    assert get(f"/digests/site?date={factories.DAY}").json() == latest
    assert get("/digests/site?date=2020-01-01").status_code == 404
    assert get("/digests/none").status_code == 404
    assert [one["slug"] for one in get("/profiles").json()["items"]] == ["site"]


def test_a_methods_claims_have_verdicts() -> None:
    claims = get("/methods/sparse_attention/results").json()
    assert claims
    assert all(one["text"] for one in claims)
    assert get("/methods/none/results").status_code == 404


@pytest.mark.usefixtures("reader")
def test_what_a_client_has_is_not_sent_again() -> None:
    first = get("/digests/site")
    again = get("/digests/site", **{"If-None-Match": first["ETag"]})
    assert (again.status_code, again.content) == (304, b"")


def test_a_library_needs_its_scope(reader: User) -> None:
    runs = tokens.make(reader, "runs")
    assert get("/library").status_code == 401
    assert get("/library", runs).status_code == 403
    assert patch("/library/2603.00001", runs, saved=True).status_code == 403
    mine = tokens.make(reader, "mine", ["library", "nonsense"])
    assert get("/library", mine).json() == {"count": 0, "next": None, "items": []}
    refused = Client().post(
        f"{V1}/runs", "{}", "application/json", headers={"Authorization": f"Bearer {mine}"}
    )
    assert refused.status_code == 403


def test_a_library_is_read_page_by_page(reader: User, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "A_PAGE", 2)
    mine = tokens.make(reader, "mine", ["library"])
    for number in range(1, 5):
        patch(f"/library/2603.{number:05d}", mine, saved=True)
    read: list[object] = []
    monkeypatch.setattr(Paper, "from_db", classmethod(counting(Paper.from_db.__func__, read)))  # type: ignore[attr-defined]
    first, second, beyond = (get(f"/library?page={page}", mine).json() for page in (1, 2, 3))
    assert len(read) == 4, "only a page's papers are read"
    assert [page["next"] for page in (first, second, beyond)] == [2, None, None]
    assert {page["count"] for page in (first, second, beyond)} == {4}
    ids = [one["paper"]["id"] for page in (first, second, beyond) for one in page["items"]]
    assert len(ids) == len(set(ids)) == 4


def counting(method: Any, calls: list[object]) -> Any:
    """The method, which also notes its calls."""

    def called(*args: object) -> object:
        calls.append(args)
        return method(*args)

    return called


def test_a_library_is_changed_paper_by_paper(reader: User) -> None:
    mine = tokens.make(reader, "mine", ["library"])
    for _ in range(2):
        kept = patch(
            "/library/2603.00001", mine, saved=True, note="Read **this**", lists=["a b", "kernels"]
        )
    assert (kept.status_code, kept.json()["saved"]) == (200, True)
    read_at = patch("/library/2603.00001", mine, read=True).json()["read_at"]
    assert patch("/library/2603.00001", mine, read=True).json()["read_at"] == read_at
    entry = LibraryEntry.objects.get(reader=reader)
    assert (entry.note, kept.json()["lists"]) == ("Read **this**", ["a b", "kernels"])
    page = get("/library?list=kernels", mine).json()
    assert page["items"][0]["paper"]["id"] == "2603.00001"
    assert page["items"][0]["lists"] == ["a b", "kernels"]
    assert patch("/library/2603.00001", mine, lists=["kernels"]).json()["lists"] == ["kernels"]
    assert get("/library?list=a+b", mine).json()["count"] == 0
    assert get("/library?list=none", mine).status_code == 404
    assert patch("/library/2603.00001", mine, lists=[]).json()["lists"] == []
    assert patch("/library/2603.00001", mine, saved=False).json()["saved"] is False
    assert not Star.objects.exists()
    # A note is the reader's own: it is listed when its paper is no longer saved.
    (item,) = get("/library", mine).json()["items"]
    assert (item["note"], item["saved"]) == ("Read **this**", False)
    assert get("/library?show=saved", mine).json()["count"] == 0
    for wrong in (
        {"stars": 5},
        {"note": "x" * 20_001},
        {"lists": [""], "saved": False},
        {"read": "perhaps"},
    ):
        assert patch("/library/2603.00001", mine, **wrong).status_code == 422
    assert patch("/library/2612.99999", mine, saved=True).status_code == 404
    other = tokens.make(factories.make_reader("other"), "theirs", ["library"])
    assert get("/library?show=notes", other).json()["count"] == 0


def test_the_page_makes_tokens_with_scopes(client: Client, reader: User) -> None:
    client.force_login(reader)
    client.post("/account/tokens/", {"name": "both", "scopes": ["library", "runs"]})
    assert tokens.Token.objects.get().scopes == ["runs", "library"]


@pytest.mark.django_db
def test_a_paper_is_given_with_what_its_page_shows(client: Client) -> None:
    """Quotes by rules, a model's claim, links with evidence, similar papers, code."""
    call_command("import_results", RESULTS, stdout=StringIO())
    text = "Our attention kernel is 3.1x faster at 4096 tokens. Code: https://github.com/a/long."
    own = factories.make_paper(901, arxiv_id="2004.05150", title="Longformer", abstract=text)
    factories.make_paper(902, title="Longformer attention kernel", abstract=text)
    linking.link(Paper.objects.all())
    factories.summarise(own).claims.create(
        position=0, metric="kernel latency", value="3.1", unit="×", quote=text,
        state="number and unit",
    )  # fmt: skip
    told = client.get(f"/api/v1/papers/{own.arxiv_id}").json()
    page = client.get(f"/papers/{own.arxiv_id}/").content.decode()
    assert told["repository"] == "https://github.com/a/long"
    assert f'href="{told["repository"]}"' in page
    (quote,) = told["quotes"]
    assert quote["quote"] == "Our attention kernel is 3.1x faster at 4096 tokens."
    assert quote["numbers"] == [{"value": "3.1", "unit": "×", "kind": "ratio"}]
    assert ">3.1x</mark>" in page
    (claim,) = told["results"]
    measured = claim["measured_here"]
    scope = ("mechanism", "quantity", "relation", "stage", "comparator")
    assert all(measured[name] for name in scope)
    assert measured["low"] <= measured["ratio"] <= measured["high"]
    assert f"/runs/{measured['run']}/" in page
    (method,) = [one for one in told["methods"] if one["method"] == "sparse_attention"]
    assert method["mechanism"] == "sparse_attention/longformer"
    for one in method["evidence"]:
        assert one["words"] in page
    for one in told["similar"]:
        assert f"/papers/{one['id']}/" in page
    assert told["similar"]
