"""Tests of a model's server and of a mail server, with their results as lines of text."""

import re
import smtplib
import socket
import ssl
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any

import httpx2
from django.conf import settings
from django.core.mail import EmailMessage, get_connection
from django.utils.translation import gettext as _
from django.utils.translation import gettext_noop, ngettext

from assay_common.text import clean
from webapp.env import Settings
from webapp.papers.models import Paper
from webapp.summaries import budget, capability
from webapp.summaries.answer import ask_for_summary, question
from webapp.summaries.capability import Mode
from webapp.summaries.client import BusyError, Message, ModelError, Reply, Server

MAIL_SECONDS = 15  # for a whole test
GUARANTEES = {
    Mode.SCHEMA: gettext_noop("The server enforces a JSON schema."),
    Mode.OBJECT: gettext_noop("The server enforces JSON, but no schema."),
    Mode.PROMPT: gettext_noop("The server enforces no format, so some summaries may fail."),
}
TITLE = "Sparse attention"
TEXT = "Attention over long texts is slow; a sparse pattern makes it 3.5 times faster."
# Errors of a connection to a mail server, subclasses first.
MAIL_ERRORS: dict[type[OSError], str] = {
    smtplib.SMTPAuthenticationError: gettext_noop("the server refused the user or the password"),
    smtplib.SMTPSenderRefused: gettext_noop("the server refused the sender"),
    smtplib.SMTPRecipientsRefused: gettext_noop("the server refused the recipient’s address"),
    smtplib.SMTPNotSupportedError: gettext_noop("the server cannot do what was asked"),
    smtplib.SMTPServerDisconnected: gettext_noop("it closed the connection: check the encryption"),
    ssl.SSLError: gettext_noop("the encrypted connection failed"),
    socket.gaierror: gettext_noop("there is no server with this name"),
    ConnectionRefusedError: gettext_noop("nothing answers at this port"),
    TimeoutError: gettext_noop("the server did not answer in time"),
}


def try_model(connected: Settings) -> list[str]:
    """Summarise the latest paper's abstract, and ask for Chinese. Raises ModelError."""
    server = replace(
        Server.from_settings(connected), until=time.monotonic() + settings.TRIAL_SECONDS
    )
    try:
        capability.forget(server)
        mode = capability.find_mode(
            server, lambda asked, form: budget.ask(None, server, asked, form)
        )
        return [_(GUARANTEES[Mode(mode)]), *_summary(server, mode), _chinese(server)]
    except budget.SpentError as error:
        raise ModelError(str(error)) from error
    except BusyError as error:
        if time.monotonic() < server.until:
            raise
        too_slow = _("the model did not answer all questions within %(most)d s")
        raise ModelError(too_slow % {"most": settings.TRIAL_SECONDS}) from error


def server_facts() -> list[str]:
    """Return what the probe learnt of the model's server, in sentences."""
    server = Server.configured()
    abilities = capability.stored(server) if server else None
    if server is None or abilities is None:
        return []
    concurrency = capability.concurrency(server)
    most = ngettext(
        "One summary is made at a time.",
        "At most %(count)d summaries are made at the same time.",
        concurrency,
    )
    context = _("Its context is %s tokens.")
    prompt = _("It reads inputs of up to %s characters in full.")
    return [
        _(GUARANTEES[Mode(abilities.mode)]),
        *([context % f"{abilities.context:,}"] if abilities.context else []),
        *([prompt % f"{abilities.prompt_characters:,}"] if abilities.prompt_characters else []),
        most % {"count": concurrency},
    ]


def _summary(server: Server, mode: str) -> list[str]:
    """The cost of one summary."""
    paper = Paper.objects.order_by("-pk").first()
    title, text = (paper.title, paper.abstract) if paper else (TITLE, TEXT)
    prompt = question(title, text, "the abstract", "en")
    server = capability.fitted(server)
    replies: list[Reply] = []

    def ask(messages: list[Message], schema: dict[str, Any] | None) -> Reply:
        replies.append(budget.ask(None, server, messages, schema))
        return replies[-1]

    started = time.monotonic()
    gist = ask_for_summary(ask, mode, prompt, capability.summary_schema(server)).gist
    tokens = sum(reply.tokens_in for reply in replies), sum(reply.tokens_out for reply in replies)
    cost = _("An abstract took %(seconds).1f s, %(in)d input and %(out)d output tokens: “%(gist)s”")
    seconds = time.monotonic() - started
    lines = [cost % {"seconds": seconds, "in": tokens[0], "out": tokens[1], "gist": gist}]
    if replies[0].tokens_in:
        characters = sum(len(message["content"]) for message in prompt)
        whole = replies[0].tokens_in * (1 + (settings.SUMMARY_CHARACTERS - len(text)) / characters)
        lines.append(_("A whole paper takes at most about %d input tokens.") % round(whole, -2))
    return lines


def _chinese(server: Server) -> str:
    prompt = f"Say in one sentence, in Chinese, what this is about:\n\n{TEXT}"
    text = budget.ask(None, server, [{"role": "user", "content": prompt}], None).text.strip()[:300]
    if re.search(r"[\u4e00-\u9fff]{2}", text):
        return _("It writes Chinese: “%s”") % text
    return _("It does not write Chinese: “%s”") % text


def try_mail(connected: Settings, address: str) -> list[str]:
    """Sign in and send a message. Raises OSError, which `describe` explains."""
    mailer: Any = get_connection(connected=connected, timeout=MAIL_SECONDS / 3)
    letter = EmailMessage(_("Mail works"), _("This site can send mail."), to=[address])

    def send() -> str | None:
        mailer.open()
        used = mailer.connection.sock
        version = used.version() if isinstance(used, ssl.SSLSocket) else None
        mailer.send_messages([letter])
        mailer.close()
        return version

    # A thread, since the socket's timeout never expires on a server that sends slowly.
    pool = ThreadPoolExecutor(1)
    work = pool.submit(send)
    pool.shutdown(wait=False)
    version = work.result(MAIL_SECONDS)
    sent = _("%(server)s accepted a message to %(address)s.")
    return [
        _("Connected by %s.") % version if version else _("Connected, without encryption."),
        _("Signed in as %s.") % mailer.username if mailer.username else _("Without signing in."),
        sent % {"server": mailer.host, "address": address},
    ]


def describe(error: Exception) -> str:
    """Return the reason why a test failed."""
    reason = next((text for kind, text in MAIL_ERRORS.items() if isinstance(error, kind)), "")
    detail = str(error)
    if isinstance(error, smtplib.SMTPResponseException):
        answer = error.smtp_error
        answer = answer.decode(errors="replace") if isinstance(answer, bytes) else answer
        detail = f"{error.smtp_code} {answer}"
    return f"{_(reason)} ({detail})" if reason else detail


# Servers of models on this machine, looked for when an administrator asks.

# Default addresses of servers (from their documentation). 8000 may be Assay's own port:
# that answers no list of models, and so is none.
PORTS = {"Ollama": 11434, "LM Studio": 1234, "llama.cpp": 8080, "vLLM": 8000}
LOOK_SECONDS = 1.0  # for each to answer
MAX_MODELS = 20  # of one server that are shown


@dataclass(frozen=True)
class Nearby:
    """A server that answered, and the models that it has."""

    name: str
    base_url: str
    models: tuple[str, ...]


def look() -> list[Nearby]:
    """The servers that answer at their usual ports, all asked at once."""
    with ThreadPoolExecutor(len(PORTS)) as pool:
        servers = pool.map(_ask, PORTS, PORTS.values())
    return [server for server in servers if server is not None]


def _ask(name: str, port: int) -> Nearby | None:
    address = f"http://127.0.0.1:{port}/v1"
    try:
        answer = httpx2.get(f"{address}/models", timeout=LOOK_SECONDS, follow_redirects=False)
        listed = answer.json()["data"]
        models = tuple(clean(str(model["id"]))[:128] for model in listed[:MAX_MODELS])
    except (httpx2.HTTPError, ValueError, LookupError, TypeError):
        return None
    return Nearby(name, address, models)
