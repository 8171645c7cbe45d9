"""From an invitation to the second morning, in both languages, with scripts and without.

Five stars change the next day's order and say why; a search becomes a feed, a profile and a mail.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect
from playwright.sync_api import Page as Tab

from tests import databases
from tests.browser.looks import AXE, DESKTOP, PHONE, faults
from tests.mail.conftest import Inbox, receiving
from tests.servers.site import Site, serving

pytestmark = [pytest.mark.browser, pytest.mark.xdist_group("morning")]

# For each language: how the reader reads, how many days ago the next day is, and what is said.
WALKS = {
    "en": (DESKTOP, True, "2", ["What do you read?", "Papers for", "every day"]),
    "zh-hans": (PHONE, False, "1", ["你关注什么？", "的论文", "每天"]),
}


@pytest.fixture(scope="module")
def inbox() -> Iterator[tuple[Inbox, str]]:
    with receiving() as found:
        yield found


@pytest.fixture(scope="module")
def site(
    tmp_path_factory: pytest.TempPathFactory, collected: Path, inbox: tuple[Inbox, str]
) -> Iterator[Site]:
    """A site of its own: the days that come here would change the pages of the others."""
    data = tmp_path_factory.mktemp("morning")
    databases.copy_to(data / "assay.sqlite3")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ASSAY_SMTP_URL", inbox[1])
        with serving(data, "empty", static=collected) as made:
            made.environment["ASSAY_BASE_URL"] = made.address
            made.tokens = made.run("tests.browser.morning", "first").split()
            yield made


@pytest.fixture(scope="module")
def administrator(browser: Browser, site: Site) -> Iterator[Tab]:
    context = browser.new_context(base_url=site.address)
    tab = context.new_page()
    tab.goto(f"/sign-in/{site.tokens.pop()}/")
    tab.locator("main button.first").click()
    yield tab
    context.close()


@pytest.mark.parametrize("language", WALKS)
def test_from_an_invitation_to_the_second_morning(  # noqa: PLR0915 - one walk
    language: str, browser: Browser, site: Site, administrator: Tab, inbox: tuple[Inbox, str]
) -> None:
    viewport, scripts, back, (asked, named, often) = WALKS[language]
    administrator.goto("/account/readers/")
    administrator.fill("#name", f"ada-{language}")
    administrator.click(".form button.first")
    link = administrator.locator("pre.command").inner_text()

    # Who opens the link is a reader, in the language of their browser.
    context = browser.new_context(
        base_url=site.address, locale=language, viewport=viewport, java_script_enabled=scripts
    )  # type: ignore[arg-type]
    context.add_init_script(path=AXE)
    tab = context.new_page()
    tab.goto(path_of(link))
    tab.click("main button.first")
    expect(tab.locator("h1")).to_have_text(asked)
    accessible(tab, scripts)
    tab.fill("[name=categories]", "cs.CL")
    tab.fill("[name=interests]", "evaluation, such a topic\n2603.99991")
    if not scripts:
        tab.click("#previewed button[name=preview]")
    expect(tab.locator("#preview")).to_contain_text("translation quality")
    expect(tab.locator("#answers")).to_contain_text("2603.99991")
    accessible(tab, scripts)
    tab.click("#previewed button.first")
    expect(tab.locator(".head")).to_contain_text(named)
    expect(tab.locator(".card h2").first).to_contain_text("translation quality")
    expect(tab.locator(".card", has_text="robot")).to_have_count(0)

    # Five stars, on what a search finds; the search becomes a feed, a profile and a mail.
    tab.goto("/search?q=robot+grasping")
    for number in range(5):
        star = tab.locator(".card .star").nth(number)
        star.click()
        expect(star).to_have_attribute("aria-pressed", "true")
    accessible(tab, scripts)
    search, saved = tab.url, tab.locator(".formats a", has_text="JSON Feed")
    feed = context.request.get(str(saved.get_attribute("href"))).json()
    assert all("robot" in item["title"] for item in feed["items"])
    tab.goto("/account/mail/")
    tab.fill("#address", f"ada@{language}.example")
    tab.locator("form", has=tab.locator("#address")).locator("button").click()
    tab.goto(path_of(inbox[0].mails.pop().get_content()))
    tab.click("main button.first")
    tab.goto(search)
    tab.click("a[href*='/account/mail/']:not(nav a)")
    tab.click(".form button.first >> nth=-1")
    expect(tab.locator(".listing")).to_contain_text(often)
    tab.goto(search)
    tab.click("a[href*='/feeds/new/']")
    tab.click("button[name=save]")
    expect(tab.locator(".card h2").first).to_contain_text("robot")

    # The next morning: what is like the saved papers stands with what has the word, and says why.
    site.run("tests.browser.morning", "work")
    site.run("tests.browser.morning", "next", back)
    site.run("tests.browser.morning", "work")
    # Home is the reader's own feed.
    tab.goto("/")
    close = tab.locator(".card", has=tab.get_by_role("link", name=f"robot manipulation {back}01"))
    expect(close.locator(".chips cite")).to_contain_text("robot manipulation")
    by_words = tab.locator(".card", has_text="translation quality").first
    expect(by_words.locator(".chips")).to_contain_text("evaluation")
    accessible(tab, scripts)
    (mail,) = inbox[0].mails
    inbox[0].mails.clear()
    assert mail["To"] == f"ada@{language}.example"
    assert f"robot manipulation {back}01" in mail.get_body(["plain"]).get_content()  # type: ignore[union-attr]

    # What was saved goes to a reference manager.
    tab.goto("/library/")
    with tab.expect_download() as download:
        tab.locator(".head .formats a", has_text="BibTeX").click()
    assert download.value.path().read_text().count("@misc{") == 5
    context.close()


def path_of(text: str) -> str:
    """Of the link in a text: this test's site has no public address."""
    return re.search(r"http://[^/]+(/\S+)", text)[1]  # type: ignore[index]


def accessible(tab: Tab, scripts: bool) -> None:
    """The page as it is now; without scripts axe cannot run, and every page is judged elsewhere."""
    if scripts:
        assert faults(tab, ("light",)) == []
        tab.set_viewport_size(DESKTOP)  # type: ignore[arg-type]
