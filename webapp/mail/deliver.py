"""Mails what is new: once a day or week for each delivery, and nothing where nothing is new."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date as Date
from datetime import timedelta
from smtplib import SMTPException

from django.conf import settings
from django.core import signing
from django.core.mail import EmailMultiAlternatives
from django.db import transaction
from django.template.loader import render_to_string
from django.urls import reverse

from webapp.digests.models import DigestEntry
from webapp.digests.text_formats import authors, score_terms
from webapp.mail.models import Delivery
from webapp.papers.days import eastern_date, now
from webapp.papers.models import Paper
from webapp.papers.queries import dates, listings
from webapp.papers.search import search
from webapp.readers.links import site_address
from webapp.ui.markup import plain

log = logging.getLogger(__name__)

SETTLED = timedelta(minutes=30)  # since a day's last category came
WEEK = timedelta(days=7)
MOST = 100  # papers of one mail
UNSUBSCRIBE = "mail unsubscribe"  # what a token is good for


@dataclass(frozen=True)
class Line:
    """A paper as a mail shows it, in plain text."""

    title: str
    address: str
    authors: str
    reason: str
    gist: str


def deliver_due() -> int:
    """Send every mail that is due; how many went out. One that fails waits for the next call."""
    if not settings.MAIL_ON:
        return 0
    sent = 0
    for pk in Delivery.objects.filter(reader__is_active=True).values_list("pk", flat=True):
        try:
            sent += _deliver(pk)
        except (SMTPException, OSError) as error:
            log.warning("Mail not sent, tried again at the next tick: %s", error)
    return sent


@transaction.atomic
def _deliver(pk: int) -> bool:
    """One delivery, under a lock: two workers do not send it twice. Raises SMTPException, OSError.

    A process killed between mail and commit sends it again, with the same Message-ID.
    """
    rows = Delivery.objects.select_for_update().filter(pk=pk).exclude(reader__email="")
    delivery = rows.select_related("reader").first()
    today = eastern_date(now())
    if delivery is None or not _is_due(delivery, today):
        return False
    until, lines = _new_lines(delivery)
    if lines:
        _send(delivery, until, lines)
    elif delivery.frequency == Delivery.Frequency.DAILY:
        return False  # the day may still come
    delivery.sent_until, delivery.looked_on = until, today
    delivery.save(update_fields=["sent_until", "looked_on"])
    return bool(lines)


def _is_due(delivery: Delivery, today: Date) -> bool:
    if delivery.frequency == Delivery.Frequency.WEEKLY:
        return today - delivery.looked_on >= WEEK
    return delivery.looked_on < today


def _new_lines(delivery: Delivery) -> tuple[Date, list[Line]]:
    """The last day that is looked at, and the papers announced since the last mail."""
    since, until = delivery.sent_until + timedelta(days=1), _last_settled_day()
    if until is None or until < since:
        return delivery.sent_until, []
    if delivery.profile is None:
        papers = search(delivery.q, since=since, order="newest", relax=False).papers
        known = [one for one in papers if one.announced_on and one.announced_on <= until]
        return until, [_paper_line(paper) for paper in known]
    entries = DigestEntry.objects.filter(
        digest__profile=delivery.profile, digest__date__range=(since, until)
    ).select_related("paper", "digest")
    return until, [_entry_line(one) for one in entries.order_by("-digest__date", "rank")[:MOST]]


def _last_settled_day() -> Date | None:
    """The last day with papers to which nothing is expected any more.

    A day that is over, or whose categories are all there for half an hour: a later one would
    otherwise never be mailed.
    """
    today, then = eastern_date(now()), now() - SETTLED
    for day in dates(3):
        rows = listings(day, day)
        if day < today or all(row.settled and row.changed_at <= then for row in rows):
            return day
    return None


def _entry_line(entry: DigestEntry) -> Line:
    reason = f"{entry.score:g} = {score_terms(entry)}"
    return _line(entry.paper, f"{entry.digest.date:%-d %B}, {reason}", entry.gist)


def _paper_line(paper: Paper) -> Line:
    day = f"{paper.announced_on:%-d %B}" if paper.announced_on else ""
    return _line(paper, f"{day}, {paper.primary_category}", "")


def _line(paper: Paper, reason: str, gist: str) -> Line:
    address = site_address().rstrip("/") + reverse("papers:paper", args=[paper.arxiv_id])
    text = gist or f"{plain(paper.abstract)[:280].rstrip()} …"
    return Line(plain(paper.title), address, authors(paper), reason, text)


def unsubscribe_address(delivery: Delivery) -> str:
    """Where one click ends a delivery, signed in or not."""
    token = signing.dumps(delivery.pk, salt=UNSUBSCRIBE)
    return site_address().rstrip("/") + reverse("mail:unsubscribe", args=[token])


def _send(delivery: Delivery, until: Date, lines: Sequence[Line]) -> None:
    end = unsubscribe_address(delivery)
    context = {"delivery": delivery, "lines": lines, "until": until, "end": end}
    message = EmailMultiAlternatives(
        f"{delivery.name}: {len(lines)} paper{'' if len(lines) == 1 else 's'}, {until:%-d %B}",
        render_to_string("mail/digest.txt", context),
        to=[delivery.reader.email],
        headers={
            "List-Unsubscribe": f"<{end}>",
            "List-Unsubscribe-Post": "List-Unsubscribe=One-Click",  # RFC 8058
            "List-Id": f"Assay <delivery-{delivery.pk}.assay>",
            "Auto-Submitted": "auto-generated",
            "Message-ID": f"<assay-{delivery.pk}-{until}@{settings.MAIL_FROM.rpartition('@')[2]}>",
        },
    )
    message.attach_alternative(render_to_string("mail/digest.html", context), "text/html")
    message.send()
