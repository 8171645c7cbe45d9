"""What an administrator connected, tried on the spot: the model's server and mail."""

import re
import time

from django.conf import settings
from django.contrib.auth.models import User
from django.core.mail import send_mail
from django.utils.translation import gettext as _
from django.utils.translation import gettext_noop

from webapp.papers.models import Paper
from webapp.summaries.capability import Mode, mode_of
from webapp.summaries.client import ModelError, Server

GUARANTEES = {
    Mode.SCHEMA: gettext_noop("The server enforces a JSON schema."),
    Mode.OBJECT: gettext_noop("The server enforces JSON, but no schema."),
    Mode.PROMPT: gettext_noop("The server enforces no format: some summaries may fail."),
}
LANGUAGES = {
    gettext_noop("English"): r"[A-Za-z]{3}",
    gettext_noop("Chinese"): r"[\u4e00-\u9fff]{2}",
}
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
    found = [GUARANTEES[Mode(mode_of(server))]]
    for language, letters in LANGUAGES.items():
        asked = f"Say in one sentence, in {language}, what this is about:\n\n{text}"
        started = time.monotonic()
        reply = server.ask([{"role": "user", "content": asked}])
        seconds = time.monotonic() - started
        cost = _("%(seconds).1f s, %(tokens_in)d tokens in, %(tokens_out)d out") % {
            "seconds": seconds, "tokens_in": reply.tokens_in, "tokens_out": reply.tokens_out
        }  # fmt: skip
        wrong = "" if re.search(letters, reply.text) else _("Wrong language.")
        found.append(f"{_(language)}: {cost}: “{reply.text.strip()[:300]}” {wrong}".strip())
        if language == "English" and reply.tokens_in:
            whole = round(settings.SUMMARY_CHARACTERS * reply.tokens_in / len(asked), -2)
            found.append(_("A whole paper takes at most about %d tokens.") % whole)
    return found


def try_mail(reader: User) -> list[str]:
    """Mail a line to a reader's confirmed address. Raises OSError."""
    if not settings.MAIL_ON or not reader.email:
        raise OSError(_("set ASSAY_SMTP_URL, and confirm your address under Account, Mail"))
    send_mail("Mail works", "This site can send mail.\n", None, [reader.email])
    sent = _("%(server)s accepted a mail to %(address)s.")
    return [sent % {"server": settings.EMAIL_HOST, "address": reader.email}]
