"""An administrator connects a model's server and mail on a page; who may, and who sees what."""

from __future__ import annotations

import json
import logging
import os
import smtplib
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.test import Client
from pytest_httpserver import HTTPServer

from tests import factories
from tests.operate.connections import ADDRESS, SECRET, of_mail, of_model, sent
from tests.operate.connections import administrator as administrator  # noqa: PLC0414 - fixtures
from tests.operate.connections import file as file  # noqa: PLC0414
from tests.operate.connections import model as model  # noqa: PLC0414
from tests.servers.openai import OpenAIServer
from webapp.core import connections
from webapp.operate import doctor
from webapp.summaries.client import Server

pytestmark = pytest.mark.django_db
WORD = "pass-nobody-may-see-this"


def test_a_model_is_tried_kept_and_used(client: Client, model: OpenAIServer, file: Path) -> None:
    factories.make_paper(1, abstract="It makes 3 boats faster than any other boat. " * 3)
    page = sent(client, "model", **of_model(model.url))
    assert "The server enforces a JSON schema." in page
    assert "output tokens: “The paper reports: It makes 3 boats" in page
    assert "It does not write Chinese: “A pruner" in page
    assert "A whole paper takes at most about" in page
    assert "It works." in page
    assert f"Connected: small at {model.url}." in page
    assert Server.configured() == Server(model.url, "small", SECRET)
    assert file.stat().st_mode & 0o777 == 0o600
    assert [one.name for one in file.parent.iterdir()] == [file.name]


def test_a_secret_is_shown_nowhere(
    client: Client, model: OpenAIServer, file: Path, caplog: pytest.LogCaptureFixture, settings: Any
) -> None:
    pages = [sent(client, "model", **of_model(model.url))]
    login = {"username": "ada", "password": WORD, "sender": "a@b.example", "to": "c@d.example"}
    mail = {"host": "localhost", "port": 9, "scheme": "smtp"} | login
    pages += [sent(client, "mail", act, **mail) for act in ("try", "keep")]
    assert (file.read_text().count(SECRET), file.read_text().count(WORD)) == (1, 1)
    for address in (ADDRESS, "/account/data.json", "/first-steps/"):
        pages.append(client.get(address).content.decode())
    assert "not shown again" in pages[-1]
    options = dict(settings.LOGGING["formatters"]["line"])
    formatter = options.pop("()")(**options)
    logging.getLogger("x").warning("the servers say %s and %s are wrong", SECRET, WORD)
    pages += [formatter.format(record) for record in caplog.records]
    assert "the servers say … and … are wrong" in pages[-1]
    with connection.cursor() as cursor:
        for table in connection.introspection.django_table_names(only_existing=True):
            cursor.execute(f'SELECT * FROM "{table}"')
            pages.append(str(cursor.fetchall()))
    assert [page for page in pages if SECRET in page or WORD in page] == []


def test_a_server_that_repeats_the_key_is_not_repeated(
    client: Client, httpserver: HTTPServer, file: Path
) -> None:
    httpserver.expect_request("/v1/chat/completions").respond_with_json(
        {"error": {"message": f"no such key: {SECRET}"}}, 401
    )
    page = sent(client, "model", **of_model(httpserver.url_for("/v1")))
    assert "It does not work: the model’s server refused the key (401):" in page
    assert "no such key: …" in page
    assert SECRET not in page
    assert not file.exists()
    assert Server.configured() is None


def test_a_mail_server_that_repeats_the_password_is_not_repeated(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise smtplib.SMTPAuthenticationError(535, f"no such password: {SECRET}")

    monkeypatch.setattr("webapp.operate.connecting.try_mail", refuse)
    for password in (SECRET, ""):  # the kept one
        page = sent(client, "mail", **of_mail(25, password=password))
        assert "no such password: …" in page
        assert SECRET not in page
        sent(client, "mail", "keep", **of_mail(25))


def test_the_kept_key_goes_to_no_other_server(client: Client, file: Path) -> None:
    sent(client, "model", "keep", **of_model("http://one.example/v1/"))
    sent(client, "model", "keep", **of_model("http://one.example/v1/", key="", model="large"))
    assert Server.configured() == Server("http://one.example/v1", "large", SECRET)
    sent(client, "model", "keep", **of_model("http://two.example/v1", key=""))
    assert Server.configured() == Server("http://two.example/v1", "small", "")
    assert SECRET not in file.read_text()


def test_the_kept_password_goes_to_no_other_server_and_no_other_user(
    client: Client, file: Path
) -> None:
    sent(client, "mail", "keep", **of_mail(25))
    before = file.read_text()
    for other in ({"host": "other.example"}, {"username": "bob"}):
        page = sent(client, "mail", "keep", **of_mail(25, password="") | other)
        assert "Enter the password of this user." in page
        assert file.read_text() == before
    sent(client, "mail", "keep", **of_mail(587, password=""))
    assert connections.smtp(connections.current())["password"] == SECRET


def test_what_is_removed_is_gone_and_the_rest_stays(
    client: Client, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def removable() -> int:
        return client.get(ADDRESS).content.decode().count("Remove these settings")

    sent(client, "model", "keep", **of_model("http://one.example/v1"))
    assert removable() == 1
    sent(client, "mail", "keep", **of_mail(25))
    assert removable() == 2
    monkeypatch.setenv("OPENAI_API_KEY", "of-the-environment")
    sent(client, "model", "remove", **{"try": "1"})
    assert Server.configured() is None
    assert set(json.loads(file.read_text())) == {"ASSAY_SMTP_URL", "ASSAY_MAIL_FROM"}
    assert connections.mail_host() == "localhost"
    monkeypatch.setenv("ASSAY_SUMMARY_MODEL", "small")  # connected, and none of it kept here
    assert removable() == 1


@pytest.mark.parametrize("host", ["::1", "mail.example"])
def test_a_login_of_any_characters_arrives_as_it_was_written(client: Client, host: str) -> None:
    user, password = "ada@home.example", ' a:b/c@d%41?#é"'
    sent(client, "mail", "keep", **of_mail(25, host=host, username=user, password=password))
    known = connections.smtp(connections.current())
    assert (known["host"], known["username"], known["password"]) == (host, user, password)


def test_its_owner_alone_may_read_the_file_whatever_others_may(file: Path) -> None:
    before = os.umask(0)
    try:
        connections.store({"OPENAI_API_KEY": SECRET})
    finally:
        os.umask(before)
    assert file.stat().st_mode & 0o777 == 0o600


def test_the_file_is_read_once_and_again_when_it_changed(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reads: list[Path] = []
    read = Path.read_bytes

    def counted(path: Path) -> bytes:
        reads.append(path)
        return read(path)

    monkeypatch.setattr(Path, "read_bytes", counted)
    for key in ("k" * 9, "l" * 9):
        connections.store({"OPENAI_API_KEY": key})
        reads.clear()
        assert [connections.secrets()[0] for _ in range(3)] == [key] * 3
        assert reads == [file]


def test_a_report_of_an_error_has_no_secret(client: Client) -> None:
    answer: Any = client.post(ADDRESS, {"connection": "model"} | of_model(""))
    assert set(answer.wsgi_request.sensitive_post_parameters) == {"key", "password"}


def test_only_a_trial_of_mail_needs_somebody_to_write_to(client: Client, file: Path) -> None:
    fields = {"host": "mail.example", "port": 25, "scheme": "smtp", "sender": "a@b.example"}
    assert "This field is required" in sent(client, "mail", "try", **fields, to="")
    assert not file.exists()
    sent(client, "mail", "keep", **fields, to="")
    assert "mail.example:25" in file.read_text()


def test_what_the_environment_sets_stays(
    client: Client, monkeypatch: pytest.MonkeyPatch, model: OpenAIServer, file: Path
) -> None:
    sent(client, "model", "keep", **of_model("http://kept.example/v1", key=""))
    monkeypatch.setenv("OPENAI_BASE_URL", "")  # which counts as unset
    assert Server.configured() == Server("http://kept.example/v1", "small", "")
    monkeypatch.setenv("OPENAI_BASE_URL", model.url)
    monkeypatch.setenv("OPENAI_API_KEY", SECRET)
    page = client.get(ADDRESS).content.decode()
    assert "Set by the environment: OPENAI_BASE_URL." in page
    assert page.count(" disabled") == 2
    assert SECRET not in page
    sent(client, "model", "keep", base_url="http://other.example/v1", model="large", key="x")
    assert Server.configured() == Server(model.url, "large", SECRET)
    assert SECRET not in file.read_text()
    monkeypatch.setenv("ASSAY_SUMMARY_MODEL", "small")
    assert "Save without testing" in client.get(ADDRESS).content.decode()  # of mail
    before = file.read_text()
    page = sent(client, "model")
    assert "It works." in page
    assert "Saved." not in page
    assert file.read_text() == before


def test_a_login_in_the_environments_address_is_not_shown(
    client: Client, monkeypatch: pytest.MonkeyPatch, model: OpenAIServer
) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", model.url.replace("://", f"://ada:{SECRET}@"))
    page = sent(client, "model", model="small")
    assert "It works." in page
    assert "Connected: small at http://ada:***@127.0.0.1" in page
    assert SECRET not in page


@pytest.mark.parametrize(
    "fields",
    [
        {"base_url": "ftp://host/v1"},
        {"base_url": "javascript:alert(1)"},
        {"base_url": "http://user:word@host/v1"},
        {"base_url": "http://host/v1?key=1"},
        {"base_url": "http://host:99999/v1"},
        {"base_url": "http://" + "h" * 400},
        {"key": "with blank"},
        {"key": "Schlüssel"},
        {"key": "k" * 501},
        {"model": ""},
        {"model": "m" * 129},
    ],
    ids=lambda fields: str(fields)[:40],
)
def test_what_no_model_has_is_refused(client: Client, file: Path, fields: dict[str, str]) -> None:
    whole = {"connection": "model", "keep": "1"} | of_model("http://host/v1") | fields
    answer = client.post(ADDRESS, whole)
    assert (answer.status_code, file.exists()) == (422, False)
    assert "errorlist" in answer.content.decode()


@pytest.mark.parametrize(
    "fields",
    [
        {"host": "mail.example/x"},
        {"host": "a b"},
        {"host": "not:an:address:of:ip"},
        {"port": "70000"},
        {"scheme": "ftp"},
        {"sender": "nobody"},
        {"sender": "a@b.example\r\nBcc: c@d.example, e@f.example"},
        {"to": "a@b.example, c@d.example"},
        {"password": ""},
        {"password": "p" * 501},
    ],
    ids=lambda fields: str(fields)[:40],
)
def test_what_no_mail_server_has_is_refused(
    client: Client, file: Path, fields: dict[str, str]
) -> None:
    answer = client.post(ADDRESS, {"connection": "mail", "keep": "1"} | of_mail(587) | fields)
    assert (answer.status_code, file.exists()) == (422, False)


def test_a_write_that_fails_leaves_what_was_kept(
    client: Client, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent(client, "model", "keep", **of_model("http://one.example/v1"))

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    page = sent(client, "model", "keep", **of_model("http://two.example/v1"))
    assert "No space left on device" in page
    assert Server.configured() == Server("http://one.example/v1", "small", SECRET)
    assert [one.name for one in file.parent.iterdir()] == [file.name]


def test_a_damaged_file_stops_nothing_and_is_told(client: Client, file: Path) -> None:
    for damage in ('{"ASSAY_SUMMARY_MODEL": "sma', "[]", '{"ASSAY_SMTP_URL": "ftp://host"}'):
        file.write_text(damage)
        assert Server.configured() is None
        assert client.get(ADDRESS).status_code == 200
        problems = [finding.what for finding in doctor._summaries() if finding.level == "problem"]
        assert "what was connected is not used" in problems[0]
        sent(client, "model", "keep", **of_model("http://one.example/v1"))
        assert Server.configured() == Server("http://one.example/v1", "small", SECRET)


def test_it_is_the_administrators(client: Client, file: Path) -> None:
    strict = Client(enforce_csrf_checks=True)
    strict.force_login(User.objects.get())
    whole = {"connection": "model", "keep": "1"} | of_model("http://host/v1")
    assert strict.post(ADDRESS, whole).status_code == 403
    client.force_login(factories.make_reader())
    assert client.post(ADDRESS, whole).status_code == 403
    assert "A model for summaries" not in client.get("/first-steps/").content.decode()
    assert not file.exists()
