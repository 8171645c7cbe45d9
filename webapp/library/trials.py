"""What an administrator connected, tried on the spot: the model's server and mail."""

import re
import time

from django.conf import settings
from django.contrib.auth.models import User
from django.core.mail import send_mail

from webapp.papers.models import Paper
from webapp.summaries.capability import Mode, mode_of
from webapp.summaries.client import ModelError, Server

HOLDS = {
    Mode.SCHEMA: "It holds to a JSON schema.",
    Mode.OBJECT: "It answers with JSON, of whatever form.",
    Mode.PROMPT: "It is asked for JSON in words alone, and may fail to give it.",
}
LANGUAGES = {"English": r"[A-Za-z]{3}", "Chinese": r"[\u4e00-\u9fff]{2}"}
TEXT = "Attention over long texts is slow; a sparse pattern makes it 3.5 times faster."


def try_model() -> list[str]:
    """Ask the model of the settings for a sentence in each language; what was found, in lines.

    Raises ModelError.
    """
    server = Server.configured()
    if server is None:
        raise ModelError("no model is configured")
    paper = Paper.objects.order_by("-pk").first()
    text = paper.abstract if paper else TEXT
    found = [HOLDS[Mode(mode_of(server))]]
    for language, letters in LANGUAGES.items():
        asked = f"Say in one sentence, in {language}, what this is about:\n\n{text}"
        started = time.monotonic()
        reply = server.ask([{"role": "user", "content": asked}])
        seconds = time.monotonic() - started
        kept = "" if re.search(letters, reply.text) else f" That is not {language}."
        cost = f"{seconds:.1f} s, {reply.tokens_in} tokens in, {reply.tokens_out} out"
        found.append(f"{language}: {cost}: “{reply.text.strip()[:300]}”{kept}")
        if language == "English" and reply.tokens_in:
            whole = round(settings.SUMMARY_CHARACTERS * reply.tokens_in / len(asked), -2)
            found.append(f"A whole paper is at most about {whole:.0f} tokens in.")
    return found


def try_mail(reader: User) -> list[str]:
    """Mail a line to a reader's confirmed address. Raises OSError."""
    if not settings.MAIL_ON or not reader.email:
        raise OSError("set up a server, and confirm your address under Account, Mail")
    send_mail("Mail works", "This site can send mail.\n", None, [reader.email])
    return [f"{settings.EMAIL_HOST} took a mail to {reader.email}."]
