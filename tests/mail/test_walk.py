"""From a search to a mail and to its end, as a reader walks, in both languages."""

from __future__ import annotations

import re
from html import unescape

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.utils import timezone

from tests import factories
from tests.digests.days import TUESDAY, announce, paper
from tests.mail.conftest import Inbox
from webapp.mail import deliver

pytestmark = pytest.mark.django_db

WORDS = {
    "en": {
        "link": "Mail me new results",
        "asked": "Subscribed. You will get a mail when there is something new.",
        "confirm": "Confirm your address",
        "confirmed": "Mail goes to reader@home.example.",
        "subject": "“tuesday sparse”: 1 paper",
        "often": "every day",
        "end": "Unsubscribe?",
        "ended": "is no longer mailed to you",
    },
    "zh-hans": {
        "link": "有新结果时发邮件给我",
        "asked": "已订阅：有新内容时会发邮件给你。",
        "confirm": "确认你的邮箱",
        "confirmed": "邮件将发送至 reader@home.example。",
        "subject": "“tuesday sparse”：1 篇论文",
        "often": "每天",
        "end": "退订此邮件？",
        "ended": "不再向你发送",
    },
}


@pytest.mark.parametrize("language", WORDS)
def test_from_a_search_to_a_mail_and_its_end(
    language: str, client: Client, inbox: Inbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = WORDS[language]
    reader: User = factories.make_reader()
    client.force_login(reader)
    client.post("/language/", {"language": language, "next": "/"})

    # An address of one's own, confirmed by a link in a mail.
    client.post("/account/mail/", {"address": "reader@home.example"})
    first = inbox.mails.pop()
    assert first["Subject"] == words["confirm"]
    link = re.search(r"https://site.example(/\S+)", first.get_content())[1]  # type: ignore[index]
    assert words["confirmed"] in client.post(link, follow=True).content.decode()

    # A search, and the link beside what it found.
    announce(TUESDAY, paper(2, "Sparse attention on Tuesday", announced_on=TUESDAY))
    found = client.get("/search?q=tuesday+sparse").content.decode()
    (address,) = re.findall(rf'<a href="([^"]+)">{words["link"]}</a>', found)
    form = client.get(unescape(address)).content.decode()
    assert 'value="tuesday sparse"' in form
    asked = client.post(
        "/account/mail/", {"q": "tuesday sparse", "frequency": "daily"}, follow=True
    ).content.decode()
    assert words["asked"] in asked
    assert words["often"] in asked

    # The next paper comes, and its mail.
    today = timezone.now().date()
    announce(today, paper(3, "More sparse attention since Tuesday", announced_on=today))
    monkeypatch.setattr(deliver, "_last_settled_day", lambda: today)
    assert deliver.deliver_due() == 1
    (mail,) = inbox.mails
    assert mail["Subject"].strip().startswith(words["subject"])
    text = mail.get_body(["plain"]).get_content()  # type: ignore[union-attr]
    assert "More sparse attention since Tuesday" in text
    assert words["often"] in text

    # Its end: by the link, in the language of whoever opens it.
    end = mail["List-Unsubscribe"].strip("<> ").removeprefix("https://site.example")
    assert words["end"] in client.get(end).content.decode()
    assert words["ended"] in client.post(end).content.decode()
    assert deliver.deliver_due() == 0
