"""Mails what is new: once a day or week for each delivery, and nothing if nothing is new."""

import logging
from collections.abc import Sequence
from datetime import date as Date
from datetime import timedelta
from email.utils import parseaddr
from smtplib import SMTPException, SMTPServerDisconnected
from typing import Literal, TypedDict

from django.contrib.auth.models import User
from django.core import signing
from django.core.mail import EmailMultiAlternatives, get_connection
from django.core.mail.backends.base import BaseEmailBackend
from django.db.models import Q, QuerySet
from django.template.loader import render_to_string
from django.utils import translation
from django.utils.formats import date_format
from django.utils.translation import gettext, ngettext

from webapp.claims.extraction.quotes import Quote
from webapp.core import connections, leases
from webapp.core.leases import renewed
from webapp.digests.entries import with_summaries
from webapp.digests.models import DigestEntry
from webapp.digests.text_formats import authors, first_reason, method_texts
from webapp.mail.models import Delivery
from webapp.papers.days import eastern_date, now
from webapp.papers.models import Listing, Paper
from webapp.papers.queries import dates
from webapp.papers.search import PAGE, search
from webapp.readers.links import page_address, save_address
from webapp.readers.models import Preference
from webapp.ui.markup import plain

log = logging.getLogger(__name__)

SETTLED = timedelta(minutes=30)  # since a day's last category came
PAUSES: dict[str, timedelta] = {"daily": timedelta(days=1), "weekly": timedelta(days=7)}
LEASE = 60.0  # seconds, of a delivery; renewed while its mail is sent
MAX_PAPERS = 100  # papers of one mail
UNSUBSCRIBE = "mail unsubscribe"  # what a token is good for


class MailLine(TypedDict):
    """A paper in a mail."""

    title: str
    address: str
    authors: str
    reason: str
    gist: str  # what is proposed or found, in a sentence
    quote: Quote | None  # what the abstract reports, in its own words
    methods: str  # those of ours that it concerns, or ""
    links: list[tuple[str, str]]  # (name, address)
    folded: Literal["", "lower", "nearest"]  # which list behind the papers it stands in


def deliver_due() -> int:
    """Send every mail that is due by one connection; how many went out.

    One that fails waits for the next call.
    """
    if not connections.mail_host():
        return 0
    sent, mail = 0, get_connection()
    for pk in list(_due().values_list("pk", flat=True)):
        try:
            sent += _deliver(pk, mail)
        except (SMTPException, OSError) as error:
            log.warning("Mail not sent, tried again at the next tick: %s", error)
            mail.close()  # the next one opens another
        except Exception:
            log.exception("Delivery %s cannot be mailed", pk)  # and keeps no other back
    mail.close()
    return sent


def _deliver(pk: int, mail: BaseEmailBackend) -> bool:
    """One delivery, under a lease: two workers do not send it twice. Raises SMTPException, OSError.

    No transaction is open meanwhile: a mail server that takes its time would keep every writer
    waiting. A process killed between mail and record sends it again, with the same Message-ID.
    """
    row = Delivery.objects.filter(pk=pk)
    token = leases.take(row, LEASE)
    if not token:
        return False
    held = row.filter(lease=token)
    try:
        with renewed(lambda: leases.renew(held, LEASE), LEASE):
            # Unless another worker has sent it meanwhile.
            delivery = _due().filter(pk=pk).select_related("reader").first()
            return delivery is not None and _send_new(delivery, held, mail)
    finally:
        leases.release(held)


def _due() -> QuerySet[Delivery]:
    """The deliveries whose time has come; a daily one only where a day is settled since."""
    today, settled = eastern_date(now()), _last_settled_day()
    over = Q()
    for frequency, pause in PAUSES.items():
        over |= Q(frequency=frequency, looked_on__lte=today - pause)
    new = ~Q(frequency=Delivery.Frequency.DAILY)
    if settled:
        new |= Q(sent_until__lt=settled)
    return Delivery.objects.filter(over & new, reader__is_active=True).exclude(reader__email="")


def _send_new(delivery: Delivery, held: QuerySet[Delivery], mail: BaseEmailBackend) -> bool:
    """Send what is new, if anything is, and record how far it has been; whether it was sent."""
    with translation.override(Preference.preferred_language(delivery.reader)):
        until, lines = _new_lines(delivery, delivery.sent_until)
        if listed := any(not line["folded"] for line in lines):
            # Whoever was stopped meanwhile leaves it to the worker that has it now, or had it.
            if not leases.renew(held.filter(sent_until=delivery.sent_until), LEASE):
                return False
            _send(delivery, until, lines, mail)
    if not listed and delivery.frequency == Delivery.Frequency.DAILY:
        return False  # the day may still come
    # Its reader may have ended it, or gone, while it was sent. A lost lease takes nothing back.
    row = Delivery.objects.filter(pk=delivery.pk)
    row.update(sent_until=until, looked_on=eastern_date(now()))
    return listed


def preview(delivery: Delivery) -> tuple[Date | None, list[MailLine]]:
    """The last day whose announcements are complete, and the mail that it makes."""
    day = _last_settled_day()
    if day is None:
        return None, []
    return _new_lines(delivery, day - PAUSES[delivery.frequency])


def send_now(delivery: Delivery) -> bool:
    """Mail the preview, whatever was mailed before; False if there is nothing in it.

    Raises SMTPException, OSError.
    """
    until, lines = preview(delivery)
    if until and lines:
        mail = get_connection()
        try:
            _send(delivery, until, lines, mail, again=now().strftime("-%H%M%S"))
        finally:
            mail.close()
    return bool(lines)


def _new_lines(delivery: Delivery, sent_until: Date) -> tuple[Date, list[MailLine]]:
    """The last day that is looked at, and the papers announced after `sent_until`."""
    since, until = sent_until + timedelta(days=1), _last_settled_day()
    if until is None or until < since:
        return sent_until, []
    reader = delivery.reader
    if delivery.profile is None:
        return until, [
            _line(reader, DigestEntry(paper=paper), paper.announced_on, paper.primary_category)
            for paper in _search_results(delivery, since, until)
        ]
    entries = DigestEntry.objects.filter(
        digest__profile=delivery.profile, digest__date__range=(since, until)
    ).select_related("paper", "digest")
    shown = with_summaries(entries).order_by("also_mentioned", "-digest__date", "rank")[:MAX_PAPERS]
    return until, [_line(reader, entry, entry.digest.date, first_reason(entry)) for entry in shown]


def _search_results(delivery: Delivery, since: Date, until: Date) -> list[Paper]:
    """Return a search's papers of these days; an identifier finds its paper whatever its day."""
    papers: list[Paper] = []
    for page in range(1, MAX_PAPERS // PAGE + 1):
        results = search(
            delivery.q, since=since, page=page, order="newest", relax=False, reader=delivery.reader
        )
        papers += results.papers
        if not results.has_next:
            break
    return [p for p in papers if p.announced_on and since <= p.announced_on <= until]


def _last_settled_day() -> Date | None:
    """The last day with papers to which nothing is expected any more.

    A day that is over, or whose categories are all there for half an hour: a later one would
    otherwise never be mailed.
    """
    today, then = eastern_date(now()), now() - SETTLED
    for day in dates(3):
        rows = Listing.objects.filter(date=day)
        if day < today or all(row.settled and row.changed_at <= then for row in rows):
            return day
    return None


def _line(reader: User, entry: DigestEntry, day: Date | None, reason: str) -> MailLine:
    """A paper as a mail shows it, in plain text; saved by a link that needs no session."""
    paper = entry.paper
    links = [
        ("PDF", f"https://arxiv.org/pdf/{paper.arxiv_id}"),
        (gettext("Code"), paper.repository),
        (gettext("Save"), save_address(reader, paper.arxiv_id)),
    ]
    return {
        "folded": "nearest" if entry.is_nearest else "lower" if entry.also_mentioned else "",
        "title": (gettext("Withdrawn.") + " ") * paper.withdrawn + plain(paper.title),
        "address": page_address("papers:paper", paper.arxiv_id),
        "authors": authors(paper),
        "reason": f"{_day(day)}, {reason}" if day else reason,
        "gist": entry.sentence,
        "quote": entry.quote,
        "methods": ", ".join(method_texts(entry)),
        "links": [(name, address) for name, address in links if address],
    }


def _day(day: Date) -> str:
    return date_format(day, gettext("j F"))


def _send(
    delivery: Delivery,
    until: Date,
    lines: Sequence[MailLine],
    mail: BaseEmailBackend,
    again: str = "",
) -> None:
    # One click ends a delivery, signed in or not.
    end = page_address("mail:unsubscribe", signing.dumps(delivery.pk, salt=UNSUBSCRIBE))
    sender = parseaddr(connections.current().mail_from)[1]
    listed = [line for line in lines if not line["folded"]]
    context = {
        "delivery": delivery,
        "lines": listed,
        "lower": [line for line in lines if line["folded"] == "lower"],
        "nearest": [line for line in lines if line["folded"] == "nearest"],
        "until": until,
        "end": end,
    }
    subject = ngettext(
        "%(name)s: %(count)d paper, %(day)s", "%(name)s: %(count)d papers, %(day)s", len(listed)
    )
    message = EmailMultiAlternatives(
        subject % {"name": delivery.name, "count": len(listed), "day": _day(until)},
        render_to_string("mail/digest.txt", context),
        to=[delivery.reader.email],
        headers={
            "List-Unsubscribe": f"<{end}>",
            "List-Unsubscribe-Post": "List-Unsubscribe=One-Click",  # RFC 8058
            "List-Id": f"Assay <delivery-{delivery.pk}.assay>",
            "Auto-Submitted": "auto-generated",
            "Message-ID": f"<assay-{delivery.pk}-{until}{again}@{sender.rpartition('@')[2]}>",
        },
    )
    message.attach_alternative(render_to_string("mail/digest.html", context), "text/html")
    mail.open()
    try:
        mail.send_messages([message])
    except SMTPServerDisconnected:  # some take a few mails by one connection
        mail.close()
        mail.open()
        mail.send_messages([message])
