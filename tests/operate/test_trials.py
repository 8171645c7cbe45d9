"""A server is tried before it is connected: findings and faults are explained."""

from __future__ import annotations

import json
import smtplib
import socket
import ssl
import subprocess
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import pytest
from aiosmtpd.controller import Controller
from aiosmtpd.smtp import AuthResult
from django.core.mail import send_mail
from django.test import Client

from tests.mail.conftest import Inbox
from tests.mail.conftest import inbox as inbox  # noqa: PLC0414
from tests.operate.connections import SECRET, of_mail, of_model, sent
from tests.operate.connections import administrator as administrator  # noqa: PLC0414 - fixtures
from tests.operate.connections import file as file  # noqa: PLC0414
from tests.operate.connections import model as model  # noqa: PLC0414
from tests.processes import PATIENCE, free_port
from tests.servers.openai import OpenAIServer, honest_summary
from webapp.core import connections
from webapp.operate import trials
from webapp.summaries.answer import question
from webapp.summaries.capability import Mode
from webapp.summaries.client import Reply, Server

pytestmark = pytest.mark.django_db


def test_what_a_model_says_of_its_key_is_not_shown(
    client: Client, model: OpenAIServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trials, "_summary", lambda *_: [f"“I was given {SECRET}”"])
    page = sent(client, "model", **of_model(model.url))
    assert "It works." in page
    assert "“I was given …”" in page
    assert SECRET not in page


@dataclass
class FixedServer:
    """A server that says one thing."""

    model = "fixed"

    text: str
    tokens: int = 0
    base_url: str = "http://localhost:1/v1"
    before_request: Callable[[], None] | None = None

    def ask(self, *_: object) -> Reply:
        return Reply(self.text, self.tokens, 7, cut=False)


def test_a_model_that_writes_chinese_is_told_from_one_that_does_not() -> None:
    def found(text: str) -> str:
        return trials._chinese(cast(Server, FixedServer(text)))

    assert found("稀疏注意力更快。") == "It writes Chinese: “稀疏注意力更快。”"
    assert found("Sparse 注.") == "It does not write Chinese: “Sparse 注.”"


def test_what_a_paper_costs_is_reckoned_from_its_abstract(settings: Any) -> None:
    asked = question(trials.TITLE, trials.TEXT, "the abstract", "en")
    characters = sum(len(message["content"]) for message in asked)
    settings.SUMMARY_CHARACTERS = len(trials.TEXT) + 9 * characters  # ten times as long in all
    server = cast(Server, FixedServer(json.dumps(honest_summary(trials.TEXT)), tokens=300))
    cost, whole = trials._summary(server, Mode.SCHEMA)
    assert "300 input and 7 output tokens: “The paper reports: Attention over long" in cost
    assert whole == "A whole paper takes at most about 3000 input tokens."


def test_a_trial_asks_anew_what_the_server_can_do(client: Client, model: OpenAIServer) -> None:
    assert "enforces a JSON schema" in sent(client, "model", **of_model(model.url))
    model.mode = "ignored"
    assert "enforces no format" in sent(client, "model", **of_model(model.url))


def test_a_trial_that_takes_too_long_ends(
    client: Client, model: OpenAIServer, file: Path, settings: Any
) -> None:
    settings.TRIAL_SECONDS = 4  # it asks, on a busy machine too
    model.scenario = "drip"
    page = sent(client, "model", **of_model(model.url))  # it drips for ever
    assert "the model did not answer all questions within 4 s" in page
    assert model.hung_up.wait()
    assert not file.exists()


def authenticate(_server: Any, _session: Any, _envelope: Any, _how: str, given: Any) -> AuthResult:
    is_ada = (given.login, given.password) == (b"ada", SECRET.encode())
    return AuthResult(success=is_ada, handled=False)


@pytest.fixture
def certificate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A TLS context of a server, whose certificate this process trusts."""
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
    port = free_port()
    server = Controller(
        inbox, "127.0.0.1", port, ready_timeout=PATIENCE, tls_context=certificate,
        require_starttls=True, auth_required=True, authenticator=authenticate,
    )  # fmt: skip
    server.start()
    yield inbox, port
    server.stop()


def test_mail_is_tried_kept_and_used(client: Client, post: tuple[Inbox, int]) -> None:
    inbox, port = post
    page = sent(client, "mail", **of_mail(port))
    assert "Connected by TLSv1.3." in page
    assert "Signed in as ada." in page
    assert "localhost accepted a message to root@home.example." in page
    assert connections.mail_host() == "localhost"
    send_mail("Later", "A digest.", None, ["reader@home.example"])
    assert [(mail["Subject"], mail["From"], mail["To"]) for mail in inbox.mails] == [
        ("Mail works", "assay@site.example", "root@home.example"),
        ("Later", "assay@site.example", "reader@home.example"),
    ]


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"password": "wrong"}, "the server refused the user or the password (535 5.7.8"),
        ({"scheme": "smtps"}, "the encrypted connection failed"),
        ({"host": "127.0.0.1"}, "the encrypted connection failed"),  # another name than it proves
        ({"host": "no-such-host.invalid"}, "there is no server with this name"),
        ({"port": "1"}, "nothing answers at this port"),
        ({"username": "", "password": ""}, "the server refused the sender"),
    ],
    ids=lambda one: str(one)[:40],
)
def test_what_is_wrong_with_mail_is_said(
    client: Client, post: tuple[Inbox, int], file: Path, fields: dict[str, str], reason: str
) -> None:
    page = sent(client, "mail", **of_mail(post[1]) | fields)
    assert f"It does not work: {reason}" in page
    assert not file.exists()


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (smtplib.SMTPRecipientsRefused({}), "the server refused the recipient’s address ("),
        (smtplib.SMTPNotSupportedError("no AUTH"), "the server cannot do what was asked (no AUTH)"),
        (smtplib.SMTPServerDisconnected("x"), "it closed the connection: check the encryption"),
        (OSError("of no kind"), "of no kind"),
    ],
    ids=lambda one: type(one).__name__,
)
def test_what_goes_wrong_is_said_in_words(error: Exception, words: str) -> None:
    assert trials.describe(error).startswith(words)


def test_mail_without_a_login_is_said_to_be_so(inbox: Inbox) -> None:
    found = trials.try_mail(connections.current(), "root@home.example")
    assert found[:2] == ["Connected, without encryption.", "Without signing in."]
    assert [mail["To"] for mail in inbox.mails] == ["root@home.example"]


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
        page = sent(client, "mail", **of_mail(door.getsockname()[1], scheme="smtp"))
        over.set()
    assert "the server did not answer in time" in page
