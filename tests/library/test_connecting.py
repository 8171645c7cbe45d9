"""An administrator connects a model's server and mail on a page, and reads what was found."""

from __future__ import annotations

import json
import logging
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from aiosmtpd.controller import Controller
from aiosmtpd.smtp import AuthResult
from django.contrib.auth.models import User
from django.core.mail import send_mail
from django.db import connection
from django.test import Client
from pytest_httpserver import HTTPServer

from tests import factories
from tests.mail.conftest import Inbox
from tests.servers.openai import OpenAIServer
from webapp import connections
from webapp.health import doctor
from webapp.library import trials
from webapp.summaries.client import Server

pytestmark = pytest.mark.django_db
ADDRESS = "/connections/"
SECRET = "sk-nobody-may-see-this"


@pytest.fixture(autouse=True)
def file(tmp_path: Path, settings: Any) -> Path:
    settings.CONNECTIONS_FILE = tmp_path / "connections.json"
    settings.EMAIL_BACKEND = "webapp.mail.backend.EmailBackend"
    return tmp_path / "connections.json"


@pytest.fixture(autouse=True)
def administrator(client: Client) -> User:
    made = User.objects.create_superuser("root", "root@home.example")
    client.force_login(made)
    return made


@pytest.fixture
def model() -> Iterator[OpenAIServer]:
    with OpenAIServer() as server:
        yield server


def sent(client: Client, connection: str, act: str = "try", **fields: object) -> str:
    """The page after a form was sent."""
    whole = {"connection": connection, act: "1"} | fields
    return client.post(ADDRESS, whole, follow=True).content.decode()


def of_model(url: str, **other: str) -> dict[str, str]:
    return {"base_url": url, "model": "small", "key": SECRET} | other


def test_a_model_is_tried_kept_and_used(client: Client, model: OpenAIServer, file: Path) -> None:
    factories.make_paper(1, abstract="It makes 3 boats faster than any other boat. " * 3)
    page = sent(client, "model", **of_model(model.url))
    assert "The server enforces a JSON schema." in page
    assert "out: “The paper reports: It makes 3 boats" in page
    assert "It writes no Chinese: “A pruner" in page
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
    login = {"username": "ada", "password": SECRET, "sender": "a@b.example", "to": "c@d.example"}
    mail = {"host": "localhost", "port": 9, "scheme": "smtp"} | login
    pages += [sent(client, "mail", act, **mail) for act in ("try", "keep")]
    assert file.read_text().count(SECRET) == 2
    for address in (ADDRESS, "/account/data.json", "/first-steps/"):
        pages.append(client.get(address).content.decode())
    assert "not shown again" in pages[-1]
    options = dict(settings.LOGGING["formatters"]["line"])
    formatter = options.pop("()")(**options)
    logging.getLogger("x").warning("the server says %s is wrong", SECRET)
    pages += [formatter.format(record) for record in caplog.records]
    assert "the server says … is wrong" in pages[-1]
    with connection.cursor() as cursor:
        for table in connection.introspection.django_table_names(only_existing=True):
            cursor.execute(f'SELECT * FROM "{table}"')
            pages.append(str(cursor.fetchall()))
    assert [page for page in pages if SECRET in page] == []


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


def test_the_kept_key_goes_to_no_other_server(client: Client, file: Path) -> None:
    sent(client, "model", "keep", **of_model("http://one.example/v1/"))
    sent(client, "model", "keep", **of_model("http://one.example/v1", key="", model="large"))
    assert Server.configured() == Server("http://one.example/v1", "large", SECRET)
    sent(client, "model", "keep", **of_model("http://two.example/v1", key=""))
    assert Server.configured() == Server("http://two.example/v1", "small", "")
    assert SECRET not in file.read_text()
    assert "Remove what is kept here" in client.get(ADDRESS).content.decode()
    assert "Remove what is kept here" not in sent(client, "model", "remove", **{"try": "1"})
    assert Server.configured() is None


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
    assert "Keep without trying" in client.get(ADDRESS).content.decode()  # of mail
    before = file.read_text()
    assert "It works." in sent(client, "model")
    assert file.read_text() == before


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


def test_a_trial_that_takes_too_long_ends(
    client: Client, model: OpenAIServer, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trials, "MODEL_SECONDS", 4)  # it asks, on a busy machine too
    model.scenario = "drip"
    started = time.monotonic()
    page = sent(client, "model", **of_model(model.url))
    assert "the model did not answer all questions within 4 s" in page
    assert time.monotonic() - started < 12
    assert model.hung_up.wait(5)
    assert not file.exists()


def authenticate(_server: Any, _session: Any, _envelope: Any, _how: str, given: Any) -> AuthResult:
    is_ada = (given.login, given.password) == (b"ada", SECRET.encode())
    return AuthResult(success=is_ada, handled=False)


@pytest.fixture
def certificate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A TLS context of a server, whose certificate this process trusts."""
    import ssl

    folder = tmp_path / "tls"
    folder.mkdir()
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=localhost"]
    command += ["-addext", "subjectAltName=DNS:localhost", "-keyout", "key", "-out", "certificate"]
    subprocess.run(command, cwd=folder, check=True, capture_output=True)
    monkeypatch.setenv("SSL_CERT_FILE", str(folder / "certificate"))
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(folder / "certificate", folder / "key")
    return context


@pytest.fixture
def post(certificate: Any) -> Iterator[tuple[Inbox, int]]:
    """A server that takes mail after STARTTLS from ada alone; and its port."""
    inbox = Inbox()
    with socket.create_server(("127.0.0.1", 0)) as door:
        port = door.getsockname()[1]
    server = Controller(
        inbox, "127.0.0.1", port, ready_timeout=60, tls_context=certificate,
        require_starttls=True, auth_required=True, authenticator=authenticate,
    )  # fmt: skip
    server.start()
    yield inbox, port
    server.stop()


def of_mail(port: int, **other: str) -> dict[str, object]:
    return {
        "host": "localhost", "port": port, "scheme": "smtp+tls", "username": "ada",
        "password": SECRET, "sender": "assay@site.example", "to": "root@home.example",
    } | other  # fmt: skip


def test_mail_is_tried_kept_and_used(client: Client, post: tuple[Inbox, int]) -> None:
    inbox, port = post
    page = sent(client, "mail", **of_mail(port))
    assert "Connected by TLSv1.3." in page
    assert "Signed in as ada." in page
    assert "localhost accepted a letter to root@home.example." in page
    assert connections.mail_host() == "localhost"
    send_mail("Later", "A digest.", None, ["reader@home.example"])
    assert [(mail["Subject"], mail["From"], mail["To"]) for mail in inbox.mails] == [
        ("Mail works", "assay@site.example", "root@home.example"),
        ("Later", "assay@site.example", "reader@home.example"),
    ]


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"password": "wrong"}, "the server refused the user or the password (535 5.7.8"),
        ({"scheme": "smtps"}, "the encrypted connection failed"),
        ({"host": "127.0.0.1"}, "the encrypted connection failed"),  # another name than it proves
        ({"host": "no-such-host.invalid"}, "there is no server of this name"),
        ({"port": "1"}, "nothing answers at this port"),
        ({"username": "", "password": ""}, "the server refused the sender"),
    ],
    ids=lambda one: str(one)[:40],
)
def test_what_is_wrong_with_mail_is_said(
    client: Client, post: tuple[Inbox, int], file: Path, fields: dict[str, str], said: str
) -> None:
    page = sent(client, "mail", **of_mail(post[1]) | fields)
    assert f"It does not work: {said}" in page
    assert not file.exists()


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


def test_a_mail_server_that_drips_is_left(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trials, "MAIL_SECONDS", 1)
    with socket.create_server(("127.0.0.1", 0)) as door:
        over = threading.Event()

        def drip() -> None:
            guest, _ = door.accept()
            with guest:
                while not over.wait(0.1):
                    guest.sendall(b"2")

        threading.Thread(target=drip, daemon=True).start()
        started = time.monotonic()
        page = sent(client, "mail", **of_mail(door.getsockname()[1], scheme="smtp"))
        took = time.monotonic() - started
        over.set()
    assert "the server did not answer in time" in page
    assert took < 5


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
        told = [finding.what for finding in doctor._summaries() if finding.level == "problem"]
        assert "what was connected is not used" in told[0]
    sent(client, "model", "keep", **of_model("http://one.example/v1"))
    assert json.loads(file.read_text())["ASSAY_SUMMARY_MODEL"] == "small"


def test_it_is_the_administrators(client: Client, file: Path) -> None:
    strict = Client(enforce_csrf_checks=True)
    strict.force_login(User.objects.get())
    whole = {"connection": "model", "keep": "1"} | of_model("http://host/v1")
    assert strict.post(ADDRESS, whole).status_code == 403
    client.force_login(factories.make_reader())
    assert client.post(ADDRESS, whole).status_code == 403
    assert "A model that summarises" not in client.get("/first-steps/").content.decode()
    assert not file.exists()
