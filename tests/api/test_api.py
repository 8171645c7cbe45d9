"""The interface for programs, over the same rules as the pages."""

from __future__ import annotations

import json
import re
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.utils import timezone

from tests.runs import scenes
from tests.runs.saying import queued
from webapp.api import tokens
from webapp.api.models import Token
from webapp.api.problems import ProblemError
from webapp.core import limits
from webapp.runs.models import Run, State

pytestmark = pytest.mark.django_db
RUNS = "/api/v1/runs"
WANTED = {"method": "sparse_attention", "benchmark": "latency", "params": {"batch": 2}}


@pytest.fixture
def reader() -> User:
    return User.objects.create_user("ada")


class Program:
    """A client with a token, or without."""

    def __init__(self, token: str = "") -> None:
        self.headers = {"Authorization": f"Bearer {token}"} if token else {}
        self.client = Client(enforce_csrf_checks=True)

    def get(self, path: str, **query: str) -> Any:
        return self.client.get(path, query, headers=self.headers)

    def post(self, path: str, body: object = None, **headers: str) -> Any:
        return self.client.post(
            path, json.dumps(body or {}), "application/json", headers=self.headers | headers
        )


@pytest.fixture
def program(reader: User) -> Program:
    return Program(tokens.make(reader, "tests"))


def problem(response: Any, status: int) -> dict[str, Any]:
    assert response.status_code == status, response.content
    assert response["Content-Type"] == "application/problem+json"
    told = json.loads(response.content)
    assert told["status"] == status
    assert told["title"]
    assert told["detail"]
    return told


def test_a_run_is_asked_for_followed_cancelled(program: Program, reader: User) -> None:
    asked = program.post(RUNS, WANTED)
    assert asked.status_code == 202
    run = Run.objects.get()
    assert asked["Location"] == f"{RUNS}/{run.pk}"
    assert (run.reader, run.params["batch"]) == (reader, 2)
    told = program.get(asked["Location"]).json()
    assert (told["state"], told["ended"], told["url"]) == ("queued", False, f"/runs/{run.pk}/")
    problem(program.get(f"{RUNS}/{run.pk}/results"), 409)
    assert program.post(f"{RUNS}/{run.pk}/cancel").status_code == 202
    assert program.get(asked["Location"]).json()["state"] == State.CANCELLED
    problem(program.post(f"{RUNS}/{run.pk}/cancel"), 409)


def test_results_are_open_to_all(reader: User) -> None:
    run = scenes.measured(reader)
    told = Program().get(f"{RUNS}/{run.pk}/results").json()
    assert told["series"][0]["name"] == "forward"
    assert told["hardware"] == "a processor, 2 cores"
    assert "--set batch=2" in told["command"]
    listed = Program().get(RUNS, state="succeeded").json()
    assert [one["id"] for one in listed] == [str(run.pk)]


def test_asking_twice_with_a_key_is_one_run(program: Program) -> None:
    first = program.post(RUNS, WANTED, **{"Idempotency-Key": "a"}).json()
    second = program.post(RUNS, WANTED, **{"Idempotency-Key": "a"}).json()
    assert first["id"] == second["id"]
    assert program.post(RUNS, WANTED).json()["id"] != first["id"]
    problem(program.post(RUNS, WANTED, **{"Idempotency-Key": "k" * 65}), 422)


@pytest.mark.parametrize(
    ("change", "status", "words"),
    [
        ({"params": {"batch": 99}}, 422, "batch"),
        ({"params": {"nothing": 1}}, 422, "no parameter is called"),
        ({"params": 3}, 422, "params"),
        ({"preset": "huge"}, 422, "preset"),
        ({"device": "tpu"}, 422, "device"),
        ({"seed": -1}, 422, "seed"),
        ({"path": "/etc/passwd"}, 422, "path"),
        ({"method": "nothing"}, 404, "no method is called"),
        ({"benchmark": "lat"}, 404, "benchmark"),
    ],
)
def test_a_refusal_names_what_was_wrong(
    program: Program, change: dict[str, Any], status: int, words: str
) -> None:
    told = problem(program.post(RUNS, WANTED | change), status)
    assert words in json.dumps(told)
    assert not Run.objects.exists()


def test_a_parameter_is_refused_with_its_bounds(program: Program) -> None:
    told = problem(program.post(RUNS, WANTED | {"params": {"batch": 99}}), 422)
    assert told["errors"][0]["name"] == "batch"
    assert told["errors"][0]["allowed"] == "integer from 1 to 64"
    assert told["errors"][0]["given"] == "99"


def test_what_is_no_json_is_refused(program: Program) -> None:
    response = program.client.post(RUNS, "{", "application/json", headers=program.headers)
    problem(response, 400)


def test_limits_hold_for_programs_too(program: Program, reader: User) -> None:
    for _ in range(4):
        queued(reader)
    assert "which is the limit" in problem(program.post(RUNS, WANTED), 403)["detail"]


def test_nobody_asks_without_a_token(reader: User) -> None:
    for caller in (Program(), Program("assay_wrong")):
        response = caller.post(RUNS, WANTED)
        problem(response, 401)
        assert response["WWW-Authenticate"] == "Bearer"
    client = Client()
    client.force_login(reader)  # a session is no token
    assert client.post(RUNS, json.dumps(WANTED), "application/json").status_code == 401


def test_nobody_cancels_or_sees_what_is_anothers(program: Program) -> None:
    run = queued(User.objects.create_user("eve"))
    assert "Only its reader" in problem(program.post(f"{RUNS}/{run.pk}/cancel"), 403)["detail"]
    Run.objects.filter(pk=run.pk).update(public=False)
    for path in (f"{RUNS}/{run.pk}", f"{RUNS}/{run.pk}/results"):
        problem(program.get(path), 404)
        problem(Program().get(path), 404)
    assert program.get(RUNS).json() == []


def test_a_token_is_slowed_down_and_no_other(
    program: Program, reader: User, redis_url: str, settings: Any
) -> None:
    settings.CELERY_BROKER_URL = redis_url
    limits._Away.until = 0.0  # another test of this process may have stopped its Redis
    other = Program(tokens.make(reader, "other"))
    # A busy machine answers fewer than all of them in a minute.
    token = f"token {Token.objects.exclude(name='other').get().token_hash[:32]}"
    limits.spend("API requests", token, limits.LIMITS["API requests"].most - 3)
    for _ in range(3):
        assert program.get("/api/v1/library").status_code == 403  # not counted: another scope
        assert program.get(RUNS).status_code == 200
    response = program.get(RUNS)
    assert "60 API requests a minute" in problem(response, 429)["detail"]
    assert 0 < int(response["Retry-After"]) <= 60
    assert other.get(RUNS).status_code == 200


def test_a_revoked_token_and_one_of_a_reader_put_out_are_void(
    program: Program, reader: User
) -> None:
    User.objects.filter(pk=reader.pk).update(is_active=False)
    problem(program.post(RUNS, WANTED), 401)
    User.objects.filter(pk=reader.pk).update(is_active=True)
    assert tokens.revoke(reader, Token.objects.get().pk)
    problem(program.post(RUNS, WANTED), 401)
    problem(program.get(RUNS), 401)  # not taken for an anonymous visitor


def test_the_methods_tell_their_parameters() -> None:
    told = {method["slug"]: method for method in Program().get("/api/v1/methods").json()}
    latency = told["sparse_attention"]["benchmarks"][0]
    batch = next(one for one in latency["parameters"] if one["name"] == "batch")
    assert batch["allowed"] == "integer from 1 to 64"
    assert batch["presets"]["full on a GPU"] == 4


def test_an_address_without_anything_is_a_problem_too() -> None:
    problem(Program().get(f"{RUNS}/00000000-0000-4000-8000-000000000000"), 404)


def test_the_document_and_its_page_name_every_operation(client: Client) -> None:
    schema = client.get("/api/v1/openapi.json").json()
    html = client.get("/api/docs").content.decode()
    assert schema["info"]["version"] == "0.1.0"
    for path in schema["paths"]:
        assert path in html
    assert "cdn" not in html
    assert client.get("/api/v1/docs").status_code == 404  # the page that loads from elsewhere


def test_its_page_describes_every_operation_in_chinese(client: Client) -> None:
    schema = client.get("/api/v1/openapi.json").json()
    html = client.get("/api/docs", headers={"accept-language": "zh-hans"}).content.decode()
    described = re.findall(r"<b>([^<]*)。</b>", html)
    assert len(described) == sum(map(len, schema["paths"].values()))
    assert [text for text in described if not re.search(r"[\u4e00-\u9fff]", text)] == []


class TestTokensPage:
    ADDRESS = "/account/tokens/"

    def test_a_token_is_shown_once_and_works(self, client: Client, reader: User) -> None:
        client.force_login(reader)
        html = client.post(
            self.ADDRESS, {"name": "<b>night</b>", "scopes": "runs"}
        ).content.decode()
        token = html.partition('id="made"')[2].partition(">")[2].partition("<")[0]
        assert token.startswith("assay_")
        assert token not in client.get(self.ADDRESS).content.decode()
        assert "&lt;b&gt;night" in html
        assert Program(token).post(RUNS, WANTED).status_code == 202
        assert token not in json.dumps(list(Token.objects.values()), default=str)

    def test_revoking_is_for_its_reader(self, client: Client, reader: User) -> None:
        tokens.make(reader, "mine")
        pk = str(Token.objects.get().pk)
        client.force_login(User.objects.create_user("eve"))
        client.post(self.ADDRESS, {"revoke": pk})
        assert Token.objects.exists()
        client.force_login(reader)
        client.post(self.ADDRESS, {"revoke": pk})
        assert not Token.objects.exists()

    def test_there_is_an_end_to_them(self, client: Client, reader: User, monkeypatch) -> None:
        monkeypatch.setattr(tokens, "MAX_TOKENS", 1)
        client.force_login(reader)
        one = {"name": "one", "scopes": "runs"}
        client.post(self.ADDRESS, one)
        assert "The limit is 1 tokens" in client.post(self.ADDRESS, one).content.decode()
        assert Token.objects.count() == 1

    def test_one_that_may_do_nothing_is_not_made(self, client: Client, reader: User) -> None:
        client.force_login(reader)
        refused = client.post(self.ADDRESS, {"name": "x"}).content.decode()
        assert "Choose what the token may do." in refused
        assert not Token.objects.exists()

    def test_when_a_token_expires_is_chosen_shown_and_said(
        self, client: Client, reader: User
    ) -> None:
        client.force_login(reader)
        page = client.get(self.ADDRESS).content.decode()
        assert re.search(r'<option value="90"\s+selected', page)
        client.post(self.ADDRESS, {"name": "x", "scopes": "runs", "days": "30"})
        short = Token.objects.get()
        assert short.expires_at is not None
        assert timedelta(days=29) < short.expires_at - timezone.now() < timedelta(days=31)
        assert f"{short.expires_at:%Y-%m-%d}" in client.get(self.ADDRESS).content.decode()
        client.post(self.ADDRESS, {"name": "y", "scopes": "runs", "days": "never"})
        assert Token.objects.exclude(pk=short.pk).get().expires_at is None
        refused = client.post(self.ADDRESS, {"name": "z", "scopes": "runs", "days": "9999999999"})
        assert "Choose when the token expires." in refused.content.decode()
        assert Token.objects.count() == 2

    def test_an_expired_token_is_refused_in_words(self, client: Client, reader: User) -> None:
        token = tokens.make(reader, "old", ["runs", "library"], days=30)
        program = Program(token)
        assert program.get(RUNS).status_code == 200
        Token.objects.update(expires_at=timezone.now())
        for answer in (program.post(RUNS, WANTED), program.get("/api/v1/library")):
            assert answer.status_code == 401
            assert answer["Content-Type"] == "application/problem+json"
            assert "This token expired on" in answer.json()["detail"]
        assert not Run.objects.exists()
        client.force_login(reader)
        assert "expired" in client.get(self.ADDRESS).content.decode()
        with pytest.raises(ProblemError, match=r"expired on .*/account/tokens/"):
            tokens.find(token)

    def test_strangers_are_led_to_the_sign_in(self, client: Client) -> None:
        assert client.get(self.ADDRESS)["Location"].startswith("/sign-in/")


def test_a_key_with_another_body_is_a_conflict(program: Program) -> None:
    key = {"Idempotency-Key": "k1"}
    asked = program.post(RUNS, WANTED, **key)
    assert asked.status_code == 202
    assert program.post(RUNS, WANTED, **key).json()["id"] == asked.json()["id"]
    problem(program.post(RUNS, {**WANTED, "seed": 3}, **key), 409)


@pytest.mark.parametrize("method", ["get", "post", "put", "delete", "patch"])
@pytest.mark.parametrize("address", ["runs", "methods", "nothing", "runs/x", "runs/%00"])
def test_every_refusal_is_a_problem(client: Client, method: str, address: str) -> None:
    response = getattr(client, method)(f"/api/v1/{address}")
    if response.status_code >= 400:
        problem(response, response.status_code)
    else:
        assert method == "get"


def test_the_document_says_that_refusals_are_problems(client: Client) -> None:
    document = client.get("/api/v1/openapi.json").json()
    for path in document["paths"].values():
        for operation in path.values():
            assert set(operation["responses"]) - {"default"} <= {"200", "202"}
            assert set(operation["responses"]["default"]["content"]) == {"application/problem+json"}


def test_a_body_is_cleaned(program: Program) -> None:
    hostile = {"method": "sparse_attention\x00", "benchmark": "lat\u202eency\ud800"}
    asked = program.post(RUNS, hostile)
    assert (asked.status_code, asked.json()["benchmark"]) == (202, "latency")


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("[" * 100_000, "nested too deeply"),
        ('{"params": ' * 5_000, "nested too deeply"),
        ('{"method": ', "not JSON"),
        (b"\xff", "not JSON"),
    ],
)
def test_a_body_that_cannot_be_read_is_refused_with_the_reason(
    program: Program, body: str | bytes, words: str
) -> None:
    answer = program.client.post(RUNS, body, "application/json", headers=program.headers)
    assert words in problem(answer, 400)["detail"]


@pytest.mark.parametrize("body", [None, 3, [], "text"])
def test_the_whole_body_is_named_as_such(program: Program, body: object) -> None:
    given = "" if body is None else json.dumps(body)
    answer = program.client.post(RUNS, given, "application/json", headers=program.headers)
    assert {wrong["name"] for wrong in problem(answer, 422)["errors"]} == {"body"}


def test_a_parameter_of_the_address_is_named(client: Client) -> None:
    told = problem(client.get("/api/v1/papers?q=x&page=0&since=monday"), 422)
    assert {wrong["name"] for wrong in told["errors"]} == {"page", "since"}
