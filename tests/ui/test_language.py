"""The language of a response; one reader's never reaches another."""

from __future__ import annotations

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.urls import reverse
from django.utils import translation

from tests import factories
from webapp.library.models import ReadingList
from webapp.readers import links
from webapp.readers.models import Preference
from webapp.summaries import queries

pytestmark = pytest.mark.django_db
CHINESE = "zh-hans"
BROWSER = {"accept-language": "zh-CN,zh;q=0.9,en;q=0.5"}


def language(answer) -> str:
    return answer["Content-Language"]


def choose(client: Client, code: str, page: str = "http://testserver/help/"):
    return client.post(reverse("readers:language"), {"language": code}, headers={"referer": page})


def test_the_browser_is_asked_unless_someone_chose(client: Client) -> None:
    assert language(client.get("/help/")) == "en"
    assert language(client.get("/help/", headers=BROWSER)) == CHINESE
    assert language(client.get("/help/", headers={"accept-language": "fr"})) == "en"
    answer = choose(client, "en")
    assert (answer.status_code, answer["Location"]) == (302, "http://testserver/help/")
    assert language(client.get("/help/", headers=BROWSER)) == "en"
    assert language(client.get("/help/?lang=zh-hans")) == CHINESE
    assert language(client.get("/help/?lang=none")) == "en"


def test_the_chooser_leads_to_no_other_site(client: Client) -> None:
    assert choose(client, CHINESE, "https://elsewhere.example/")["Location"] == "/"
    choose(client, "xx")
    assert language(client.get("/help/")) == CHINESE


def test_the_choice_needs_no_token_of_the_form() -> None:
    """Pages kept for everybody hold none; a session does not travel from another site's form."""
    client = Client(enforce_csrf_checks=True)
    choose(client, CHINESE)
    assert language(client.get("/help/")) == CHINESE


def test_a_kept_page_is_kept_for_each_language(client: Client) -> None:
    factories.make_day(2)
    english, chinese = client.get("/"), client.get("/", headers=BROWSER)
    assert 'lang="en"' in english.content.decode()
    assert 'lang="zh-hans"' in chinese.content.decode()
    assert client.get("/").content == english.content
    assert client.get("/", headers=BROWSER).content == chinese.content
    assert english["ETag"] != chinese["ETag"]
    for answer in (english, chinese):
        assert {"Accept-Language", "Cookie"} <= set(answer["Vary"].split(", "))


def test_a_page_shared_by_readers_is_shared_within_a_language() -> None:
    factories.make_day(2)
    shown = {}
    for name, code in (("ann", "en"), ("bo", CHINESE), ("cy", "en")):
        client = Client()
        client.force_login(factories.make_reader(name))
        choose(client, code)
        shown[name] = client.get("/").content.decode()
    assert 'lang="en"' in shown["ann"]
    assert 'lang="zh-hans"' in shown["bo"]
    assert 'lang="en"' in shown["cy"]


def test_programs_are_answered_in_english_unless_they_ask(client: Client) -> None:
    factories.make_day(2)
    plain = client.get("/digest.rss", headers=BROWSER)
    assert plain.content == client.get("/digest.rss").content
    assert b"<language>en</language>" in plain.content
    assert "Accept-Language" not in plain["Vary"]
    asked = client.get("/digest.rss?lang=zh-hans")
    assert b"<language>zh-hans</language>" in asked.content
    assert asked["ETag"] != plain["ETag"]


def test_a_readers_choice_goes_with_them_to_another_device(client: Client) -> None:
    reader = links.reader_named("ann")
    client.force_login(reader)
    assert Preference.preferred_language(reader) == "en"
    choose(client, CHINESE)
    assert Preference.preferred_language(reader) == CHINESE
    other = Client()
    other.post(reverse("readers:use-link", args=[links.make_link(reader)]))
    assert language(other.get("/help/")) == CHINESE


def test_the_first_sign_in_keeps_the_language_it_was_made_in(client: Client) -> None:
    links.administrator()
    reader = links.reader_named("bo")
    client.post(reverse("readers:use-link", args=[links.make_link(reader)]), headers=BROWSER)
    assert Preference.preferred_language(reader) == CHINESE
    assert Preference.preferred_language(User.objects.get(is_superuser=True)) == "en"


def test_what_is_refused_and_what_was_done_is_told_in_the_readers_language(client: Client) -> None:
    reader = factories.make_reader()
    client.force_login(reader)
    choose(client, CHINESE)
    wrong = {"name": "x", "categories": "cs.CL", "keywords": "moe |", "save": "1"}
    assert "“moe |” 在 | 的一侧没有内容" in client.post("/feeds/new/", wrong).content.decode()
    assert "请粘贴内容" in client.post("/library/import/", {"text": " "}).content.decode()
    made = ReadingList.objects.create(reader=reader, name="Wk")
    done = client.post(f"/library/lists/{made.pk}/", {"do": "delete"}, follow=True)
    assert "“Wk”已删除。" in done.content.decode()


def test_why_there_is_no_page_is_told_in_the_readers_language(client: Client) -> None:
    for address, why in (
        ("/save/none/", "This link is no longer valid."),
        ("/papers/2603.99999/", "This site has not fetched %(paper)s."),
    ):
        english = client.get(address)
        assert english.status_code == 404
        assert why % {"paper": "2603.99999"} in english.content.decode()
        with translation.override(CHINESE):
            told = translation.gettext(why) % {"paper": "2603.99999"}
        assert told in client.get(address, headers=BROWSER).content.decode()
    assert 'href="https://arxiv.org/abs/2603.99999"' in english.content.decode()
    assert "Page not found</h1>" not in english.content.decode()
    assert "Fetch and save it" not in english.content.decode()


def test_an_absent_paper_can_be_fetched_from_its_page(client: Client) -> None:
    client.force_login(factories.make_reader())
    page = client.get("/papers/2603.99999/")
    assert page.status_code == 404
    assert "Paper not found</h1>" in page.content.decode()
    field = '<input type="hidden" name="text" value="2603.99999">'
    assert field in page.content.decode()


def test_a_summary_is_asked_for_in_the_readers_language() -> None:
    paper = factories.make_paper(1)
    assert queries.summary_view(paper, "zh").language == "zh"
    assert queries.summary_view(paper, "fr").language == "en"
