"""Mail by a real SMTP server: what is new, once, and one click ends it."""

from __future__ import annotations

import os
import re
import signal
import time
from datetime import date, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import IntegrityError, connection, transaction
from django.test import Client
from django.utils import timezone
from lxml.html import fromstring

from tests import factories
from tests.digests.days import MONDAY, TUESDAY, WEDNESDAY, announce, paper, profile
from tests.mail.conftest import Inbox
from tests.processes import forked, wait_for
from tests.scenes import HOSTILE
from webapp.catalog.models import MethodLink
from webapp.digests.build import build
from webapp.digests.models import Profile
from webapp.library.models import Star
from webapp.mail import deliver
from webapp.mail import views as mail_views
from webapp.mail.models import Delivery
from webapp.papers.days import EASTERN
from webapp.papers.models import Listing
from webapp.readers.links import SAVED_WITHIN, save_address

pytestmark = pytest.mark.django_db


@pytest.fixture
def reader() -> User:
    made: User = factories.make_reader()
    made.email = "reader@home.example"
    made.save()
    return made


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Any:
    def at(day: date, hour: int = 12) -> None:
        moment = datetime(day.year, day.month, day.day, hour, tzinfo=EASTERN)
        monkeypatch.setattr(deliver, "now", lambda: moment)

    at(TUESDAY)
    return at


def days(reader: User) -> Profile:
    """A profile with papers on Monday and Tuesday."""
    mine = profile("Mine", owner=reader)
    announce(MONDAY, paper(1, "Sparse attention on Monday", announced_on=MONDAY))
    announce(TUESDAY, paper(2, "Sparse <attention> on Tuesday", announced_on=TUESDAY))
    build([MONDAY, TUESDAY], [mine])
    return mine


def asked(reader: User, frequency: str = "daily", **what: Any) -> Delivery:
    fields = {"sent_until": MONDAY, "looked_on": MONDAY} | what
    return Delivery.objects.create(reader=reader, frequency=frequency, **fields)


def test_a_subscription_is_of_a_feed_or_of_a_search(reader: User) -> None:
    for nothing_or_both in ({}, {"q": "words", "profile": profile("Mine", owner=reader)}):
        with pytest.raises(IntegrityError), transaction.atomic():
            asked(reader, **nothing_or_both)


@pytest.mark.usefixtures("clock")
def test_a_day_is_mailed_once_in_text_and_html(inbox: Inbox, reader: User) -> None:
    asked(reader, profile=days(reader))
    assert deliver.deliver_due() == 1
    assert deliver.deliver_due() == 0
    (mail,) = inbox.mails
    assert mail["Subject"] == "Mine: 1 paper, 3 March"
    assert mail["From"] == "assay@site.example"
    assert mail["List-Unsubscribe-Post"] == "List-Unsubscribe=One-Click"
    text, html = (mail.get_body([kind]).get_content() for kind in ("plain", "html"))
    assert "Sparse <attention> on Tuesday" in text
    assert "https://site.example/papers/2603.00002/" in text
    assert "3 March, sparse" in text
    assert "Sparse &lt;attention&gt; on Tuesday" in html
    assert "Monday" not in text + html


@pytest.mark.usefixtures("clock")
def test_a_search_is_an_alert(inbox: Inbox, reader: User) -> None:
    days(reader)
    asked(reader, q="tuesday sparse")
    asked(reader, q="zebra")
    assert deliver.deliver_due() == 1
    assert "“tuesday sparse”: 1 paper" in inbox.mails[0]["Subject"]


@pytest.mark.usefixtures("clock")
def test_an_alert_holds_all_that_is_found_and_nothing_of_other_days(
    inbox: Inbox, reader: User
) -> None:
    announce(TUESDAY, *[paper(n, f"Sparse model {n}", announced_on=TUESDAY) for n in range(1, 31)])
    old = paper(40, "Old", announced_on=MONDAY)
    announce(MONDAY, old)
    asked(reader, q="sparse")
    asked(reader, q=old.arxiv_id)
    assert deliver.deliver_due() == 1
    assert "“sparse”: 30 papers" in inbox.mails[0]["Subject"]


def test_a_week_is_one_mail_and_an_empty_one_none(inbox: Inbox, reader: User, clock: Any) -> None:
    mine = days(reader)
    old = MONDAY - timedelta(days=3)
    asked(reader, "weekly", profile=mine, sent_until=old, looked_on=old)
    assert deliver.deliver_due() == 0
    clock(old + timedelta(days=7))
    assert deliver.deliver_due() == 1
    assert inbox.mails[0]["Subject"].startswith("Mine: 2 papers")
    clock(old + timedelta(days=14))
    assert deliver.deliver_due() == 0
    assert len(inbox.mails) == 1


def test_a_day_is_mailed_when_it_is_whole(inbox: Inbox, reader: User, clock: Any) -> None:
    asked(reader, profile=days(reader))
    rows = Listing.objects.filter(date=TUESDAY)
    rows.update(state="failed")
    assert deliver.deliver_due() == 0
    rows.update(state="complete", changed_at=deliver.now() - timedelta(minutes=5))
    assert deliver.deliver_due() == 0
    clock(WEDNESDAY)
    assert deliver.deliver_due() == 1


@pytest.mark.usefixtures("clock")
def test_a_server_that_refuses_loses_nothing(inbox: Inbox, reader: User) -> None:
    asked(reader, profile=days(reader))
    inbox.refuse = True
    assert deliver.deliver_due() == 0
    inbox.refuse = False
    assert deliver.deliver_due() == 1


@pytest.mark.usefixtures("clock")
def test_a_search_of_two_lines_is_mailed_under_one(inbox: Inbox, reader: User) -> None:
    days(reader)
    asked(reader, q="tuesday\nBcc: all@home.example sparse")
    asked(reader, q="tuesday\r\nsparse")
    assert deliver.deliver_due() == 1
    assert "“tuesday sparse”: 1 paper" in inbox.mails[0]["Subject"]


@pytest.mark.usefixtures("clock")
def test_one_that_cannot_be_mailed_keeps_no_other_back(
    inbox: Inbox, reader: User, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    bad = asked(reader, q="sparse")
    asked(reader, profile=days(reader))
    real = deliver._new_lines

    def new_lines(delivery: Delivery, sent_until: date) -> Any:
        if delivery == bad:
            raise ValueError("nobody thought of this")
        return real(delivery, sent_until)

    monkeypatch.setattr(deliver, "_new_lines", new_lines)
    assert deliver.deliver_due() == 1
    assert "nobody thought of this" in caplog.text
    assert set(Delivery.objects.values_list("leased_until", flat=True)) == {None}


@pytest.mark.usefixtures("clock")
@pytest.mark.django_db(transaction=True)
def test_who_goes_while_a_mail_is_sent_keeps_no_other_back(
    inbox: Inbox, reader: User, caplog: pytest.LogCaptureFixture
) -> None:
    asked(reader, profile=days(reader))
    other = factories.make_reader("other")
    User.objects.filter(pk=other.pk).update(email="other@home.example")
    asked(other, q="tuesday sparse")

    def meanwhile() -> None:
        User.objects.filter(pk=reader.pk).delete()
        connection.close()

    inbox.meanwhile = meanwhile
    assert deliver.deliver_due() == 2
    assert [mail["To"] for mail in inbox.mails] == ["reader@home.example", "other@home.example"]
    assert deliver.deliver_due() == 0
    assert "Traceback" not in caplog.text


@pytest.mark.usefixtures("clock")
@pytest.mark.django_db(transaction=True)
def test_while_a_mail_server_takes_its_time_others_write_and_nobody_sends_it_twice(
    inbox: Inbox, reader: User
) -> None:
    asked(reader, profile=days(reader))
    second: list[int] = []

    def meanwhile() -> None:
        Profile.objects.update(name="Renamed")
        second.append(deliver.deliver_due())
        connection.close()

    inbox.meanwhile = meanwhile
    assert deliver.deliver_due() == 1
    assert second == [0]
    assert len(inbox.mails) == 1
    assert Delivery.objects.get().leased_until is None


@pytest.mark.usefixtures("clock")
@pytest.mark.django_db(transaction=True)
def test_a_worker_that_was_stopped_sends_nothing_that_another_has_sent(
    inbox: Inbox, reader: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Stopped when it has the lease, before it sends; goes on when its successor has sent."""
    asked(reader, profile=days(reader))
    real = deliver._new_lines

    def stopped(delivery: Delivery, sent_until: date) -> Any:
        found = real(delivery, sent_until)
        os.kill(os.getpid(), signal.SIGSTOP)
        return found

    def work() -> None:
        monkeypatch.setattr(deliver, "_new_lines", stopped)
        deliver.deliver_due()

    worker = forked(work)
    wait_for(lambda: state_of(worker.pid) == "T", "its stop")
    assert deliver.deliver_due() == 0  # the lease holds
    Delivery.objects.update(leased_until=timezone.now() - timedelta(seconds=1))
    assert deliver.deliver_due() == 1
    os.kill(worker.pid or 0, signal.SIGCONT)
    worker.join()
    assert worker.exitcode == 0
    assert len(inbox.mails) == 1


@pytest.mark.usefixtures("clock")
@pytest.mark.django_db(transaction=True)
def test_a_worker_that_was_stopped_ends_no_lease_of_its_successor(
    inbox: Inbox, reader: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked(reader, profile=days(reader))

    def stopped(_: Delivery, __: date) -> Any:
        os.kill(os.getpid(), signal.SIGSTOP)
        raise OSError("the network is gone")

    def work() -> None:
        monkeypatch.setattr(deliver, "_new_lines", stopped)
        deliver.deliver_due()

    worker = forked(work)
    wait_for(lambda: state_of(worker.pid) == "T", "its stop")
    Delivery.objects.update(leased_until=timezone.now() - timedelta(seconds=1))
    third: list[int] = []

    def meanwhile() -> None:  # while the successor sends
        inbox.meanwhile = int
        os.kill(worker.pid or 0, signal.SIGCONT)
        worker.join()
        third.append(deliver.deliver_due())
        connection.close()

    inbox.meanwhile = meanwhile
    assert deliver.deliver_due() == 1
    assert third == [0]
    assert len(inbox.mails) == 1


@pytest.mark.usefixtures("clock")
@pytest.mark.django_db(transaction=True)
def test_kill_9_between_a_mail_and_its_record_sends_the_same_mail_again(
    inbox: Inbox, reader: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server has taken it, and nobody knows: the second has the same Message-ID."""
    asked(reader, profile=days(reader))
    real = deliver._send

    def killed(*given: Any) -> None:
        real(*given)
        os.kill(os.getpid(), signal.SIGKILL)

    def work() -> None:
        monkeypatch.setattr(deliver, "_send", killed)
        deliver.deliver_due()

    worker = forked(work)
    worker.join()
    assert worker.exitcode == -signal.SIGKILL
    assert len(inbox.mails) == 1
    assert deliver.deliver_due() == 0  # its lease holds
    Delivery.objects.update(leased_until=timezone.now() - timedelta(seconds=1))
    assert deliver.deliver_due() == 1
    assert deliver.deliver_due() == 0
    first, second = inbox.mails
    assert first["Message-ID"] == second["Message-ID"]
    assert re.fullmatch(r"<assay-\S+@site\.example>", first["Message-ID"])
    assert first["Subject"] == second["Subject"]


def state_of(pid: int | None) -> str:
    """The state of a process, as the kernel names it: T is stopped."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


@pytest.mark.usefixtures("clock")
def test_a_batch_takes_one_connection(inbox: Inbox, reader: User) -> None:
    days(reader)
    for words in ("tuesday", "sparse", "attention"):
        asked(reader, q=words)
    assert deliver.deliver_due() == 3
    assert len(set(inbox.sessions)) == 1


@pytest.mark.usefixtures("clock")
def test_a_server_that_takes_one_mail_by_a_connection_gets_all(inbox: Inbox, reader: User) -> None:
    days(reader)
    for words in ("tuesday", "sparse", "attention"):
        asked(reader, q=words)
    inbox.one_a_session = True
    assert deliver.deliver_due() == 3
    assert len(inbox.mails) == len(set(inbox.sessions)) == 3


@pytest.mark.usefixtures("clock")
def test_what_another_sent_between_a_look_and_the_lease_is_not_sent_again(
    inbox: Inbox, reader: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked(reader, profile=days(reader))
    real = deliver.leases.take

    def take(row: Any, *given: Any) -> Any:
        row.update(looked_on=TUESDAY)  # by another worker, which has sent it
        return real(row, *given)

    monkeypatch.setattr(deliver.leases, "take", take)
    assert deliver.deliver_due() == 0
    assert not inbox.mails


@pytest.mark.usefixtures("clock")
def test_what_a_killed_worker_was_at_is_sent_when_its_lease_ends(
    inbox: Inbox, reader: User
) -> None:
    delivery = asked(reader, profile=days(reader))
    for lease, sent in ((30, 0), (-1, 1)):
        delivery.leased_until = timezone.now() + timedelta(seconds=lease)
        delivery.save()
        assert deliver.deliver_due() == sent
    assert len(inbox.mails) == 1


@pytest.mark.usefixtures("clock")
def test_nothing_goes_to_the_unconfirmed_the_switched_off_or_without_mail(
    inbox: Inbox, reader: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked(reader, profile=days(reader))
    for change in ({"email": ""}, {"email": "a@b.example", "is_active": False}):
        User.objects.filter(pk=reader.pk).update(**change)
        assert deliver.deliver_due() == 0
    User.objects.filter(pk=reader.pk).update(is_active=True)
    monkeypatch.delenv("ASSAY_SMTP_URL")
    assert deliver.deliver_due() == 0
    assert not inbox.mails


@pytest.mark.usefixtures("clock")
def test_one_click_ends_it_without_a_session(inbox: Inbox, reader: User) -> None:
    delivery = asked(reader, profile=days(reader))
    deliver.deliver_due()
    address = inbox.mails[0]["List-Unsubscribe"].strip().strip("<>")
    address = address.removeprefix("https://site.example")
    program = Client(enforce_csrf_checks=True)
    assert "Unsubscribe?" in program.get(address).content.decode()
    assert Delivery.objects.filter(pk=delivery.pk).exists()
    sent = program.post(address, "List-Unsubscribe=One-Click", "application/x-www-form-urlencoded")
    assert sent.status_code == 200
    assert not Delivery.objects.exists()
    assert "had already unsubscribed" in program.get(address).content.decode()
    assert program.post("/mail/end/forged:token/").status_code == 404


def test_a_profile_and_a_search_are_asked_for_and_ended(client: Client, reader: User) -> None:
    mine = profile("Mine", owner=reader)
    theirs = profile("Theirs", owner=factories.make_reader("other"))
    client.force_login(reader)
    assert (
        client.post("/account/mail/", {"profile": mine.pk, "frequency": "daily"}).status_code == 302
    )
    client.post("/account/mail/", {"q": "sparse", "frequency": "weekly"})
    client.post("/account/mail/", {"q": "sparse", "frequency": "daily"})  # changed, not doubled
    for wrong in ({"profile": theirs.pk}, {}, {"profile": mine.pk, "q": "x"}):
        given = {"frequency": "daily"} | wrong
        assert client.post("/account/mail/", given).status_code == 422
    found = sorted(Delivery.objects.values_list("q", "frequency"))
    assert found == [("", "daily"), ("sparse", "daily")]
    other = Client()
    other.force_login(theirs.owner)
    pk = Delivery.objects.first().pk
    other.post("/account/mail/", {"end": pk})
    assert Delivery.objects.count() == 2
    client.post("/account/mail/", {"end": pk})
    assert Delivery.objects.count() == 1


def test_more_mails_than_there_may_be_are_refused_aloud(
    client: Client, reader: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mail_views, "MAX_DELIVERIES", 1)
    client.force_login(reader)
    client.post("/account/mail/", {"q": "one", "frequency": "daily"})
    refused = client.post("/account/mail/", {"q": "two", "frequency": "daily"})
    assert "You can get at most 1 feeds" in refused.content.decode()
    client.post("/account/mail/", {"q": "one", "frequency": "weekly"})  # changed, not added
    assert [(one.q, one.frequency) for one in Delivery.objects.all()] == [("one", "weekly")]


def test_a_search_in_a_category_keeps_it(client: Client, reader: User) -> None:
    client.force_login(reader)
    paper(1, "Sparse attention")
    for query, words in {
        "q=sparse&category=cs.LG": "sparse cat:cs.LG",
        "category=cs.LG": "cat:cs.LG",
    }.items():
        page = client.get(f"/account/mail/?{query}").content.decode()
        assert f'value="{words}"' in page
        assert 'value="cs.LG"' in client.get(f"/feeds/new/?{query}").content.decode()


def test_an_address_counts_when_its_reader_confirms_it(
    client: Client, inbox: Inbox, reader: User
) -> None:
    client.force_login(reader)
    client.post("/account/mail/", {"address": "new@home.example"})
    reader.refresh_from_db()
    assert reader.email == "reader@home.example"
    link = re.search(r"https://site.example(/\S+)", inbox.mails[0].get_content())[1]
    other = Client()
    other.force_login(factories.make_reader("other"))
    assert other.post(link).status_code == 404
    assert "new@home.example" in client.get(link).content.decode()
    client.post(link)
    reader.refresh_from_db()
    assert reader.email == "new@home.example"
    client.post("/account/mail/", {"address": "not an address"})
    assert len(inbox.mails) == 1


@pytest.mark.usefixtures("clock")
@pytest.mark.parametrize("q", ['author:"Grace Mask"', "method:sparse_attention"])
def test_an_author_and_a_method_are_alerts(inbox: Inbox, reader: User, q: str) -> None:
    new = paper(7, "By her, about it", announced_on=TUESDAY, authors=[{"name": "Grace Mask"}])
    announce(TUESDAY, new, paper(8, "Neither", announced_on=TUESDAY))
    MethodLink.objects.create(paper=new, method="sparse_attention", relation="about")
    asked(reader, q=q)
    assert deliver.deliver_due() == 1
    assert "papers/2603.00007/" in inbox.mails[0].get_body(["plain"]).get_content()
    assert "papers/2603.00008/" not in inbox.mails[0].get_body(["plain"]).get_content()


@pytest.mark.usefixtures("clock")
def test_hostile_titles_are_text_in_a_mail(inbox: Inbox, reader: User) -> None:
    papers = [
        paper(number, title, announced_on=TUESDAY, abstract=f"We propose faster {title}")
        for number, title in enumerate(HOSTILE, start=1)
    ]
    announce(TUESDAY, *papers)
    asked(reader, q="faster")
    assert deliver.deliver_due() == 1
    text, html = (inbox.mails[0].get_body([kind]).get_content() for kind in ("plain", "html"))
    assert not fromstring(html).xpath(
        "//script | //style[contains(., 'display:none')] | //img | //svg | //*[@onload or @onerror]"
    )
    assert "javascript:" not in "".join(fromstring(html).xpath("//@href"))
    assert "\u202e" not in text + html
    assert "\n" not in inbox.mails[0]["Subject"]


@pytest.mark.usefixtures("clock")
def test_a_mail_says_what_is_proposed_and_saves_a_paper_without_a_session(
    inbox: Inbox, reader: User
) -> None:
    shown = paper(
        7,
        "Sparse words",
        announced_on=TUESDAY,
        abstract="Large models are everywhere. We propose to read every second word. It helps.",
        comment="Code: https://github.com/ada/words",
    )
    announce(TUESDAY, shown)
    asked(reader, q="sparse")
    assert deliver.deliver_due() == 1
    text, html = (inbox.mails[0].get_body([kind]).get_content() for kind in ("plain", "html"))
    for body in (text, html):
        assert "We propose to read every second word." in body
        assert "Large models are everywhere" not in body
        assert "https://arxiv.org/pdf/2603.00007" in body
        assert "https://github.com/ada/words" in body
    link = next(line.split(": ")[1] for line in text.splitlines() if "Save: " in line)
    path = link.removeprefix("https://site.example")
    anonymous = Client(enforce_csrf_checks=True)
    assert "Save this paper?" in anonymous.get(path).content.decode()
    assert not Star.objects.exists(), "a scanner that follows links saves nothing"
    for _ in range(2):
        assert "Saved" in anonymous.post(path).content.decode()
    assert [(one.reader, one.paper) for one in Star.objects.all()] == [(reader, shown)]
    assert anonymous.post(path[:-3] + "xx/").status_code == 404
    User.objects.filter(pk=reader.pk).update(is_active=False)
    assert anonymous.post(path).status_code == 404


@pytest.mark.usefixtures("clock")
def test_a_link_to_save_ends(inbox: Inbox, reader: User, monkeypatch: pytest.MonkeyPatch) -> None:
    shown = paper(7)
    path = save_address(reader, shown.arxiv_id).removeprefix("https://site.example")
    later = time.time() + SAVED_WITHIN.total_seconds() + 60
    monkeypatch.setattr(time, "time", lambda: later)
    assert Client().post(path).status_code == 404
    assert not Star.objects.exists()


@pytest.mark.usefixtures("clock")
def test_a_mail_is_previewed_and_sent_now(inbox: Inbox, reader: User, client: Client) -> None:
    mine = asked(reader, profile=days(reader))
    client.force_login(reader)
    address = f"/account/mail/{mine.pk}/"
    assert address in client.get("/account/mail/").content.decode()
    assert "Sparse &lt;attention&gt; on Tuesday" in client.get(address).content.decode()
    assert not inbox.mails
    assert client.post(address).status_code == 302
    assert deliver.deliver_due() == 1, "what is sent now keeps nothing back"
    ids = {mail["Message-ID"] for mail in inbox.mails}
    assert len(inbox.mails) == len(ids) == 2
    other = Client()
    other.force_login(factories.make_reader("other"))
    assert other.get(address).status_code == other.post(address).status_code == 404
