"""A real SMTP server of this machine's, and a site that sends by it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from email import message_from_bytes, policy
from email.message import EmailMessage
from typing import Any

import pytest
from aiosmtpd.controller import Controller

from tests.processes import PATIENCE, free_port


class Inbox:
    """The mails of a server; `refuse` rejects mail, `meanwhile` runs before an answer."""

    def __init__(self) -> None:
        self.mails: list[EmailMessage] = []
        self.refuse = False
        self.meanwhile: Callable[[], object] = int
        self.sessions: list[int] = []  # the connection of each mail
        self.one_a_session = False  # further mails of a connection end it

    async def handle_MAIL(  # noqa: N802
        self, server: Any, session: Any, envelope: Any, address: str, options: list[str]
    ) -> str:
        if self.one_a_session and session.peer[1] in self.sessions:
            server.transport.close()
        envelope.mail_from = address
        envelope.mail_options.extend(options)
        return "250 OK"

    async def handle_DATA(self, _server: Any, session: Any, envelope: Any) -> str:  # noqa: N802
        await asyncio.to_thread(self.meanwhile)
        if self.refuse:
            return "451 Try again later"
        mail = message_from_bytes(envelope.content, policy=policy.default)
        assert isinstance(mail, EmailMessage)
        assert [mail["To"]] == envelope.rcpt_tos
        self.mails.append(mail)
        self.sessions.append(session.peer[1])
        return "250 OK"


@contextmanager
def receiving() -> Iterator[tuple[Inbox, str]]:
    """A server of mail and its address."""
    made = Inbox()
    port = free_port()
    server = Controller(made, hostname="127.0.0.1", port=port, ready_timeout=PATIENCE)
    server.start()
    yield made, f"smtp://127.0.0.1:{port}"
    server.stop()


@pytest.fixture
def inbox(settings: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[Inbox]:
    with receiving() as (made, address):
        monkeypatch.setenv("ASSAY_SMTP_URL", address)
        monkeypatch.setenv("ASSAY_MAIL_FROM", "assay@site.example")
        settings.EMAIL_BACKEND = "webapp.mail.backend.EmailBackend"  # Django's tests replace it
        settings.BASE_URL = "https://site.example"
        yield made
