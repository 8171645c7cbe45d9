"""A first morning: what a reader likes, what is learned of it, their library."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from playwright.sync_api import Browser, expect

from tests.browser.looks import DESKTOP
from tests.servers.site import Site

pytestmark = [pytest.mark.browser, pytest.mark.xdist_group("full")]


def test_papers_one_likes_make_a_profile_that_says_why(
    browser: Browser, site: Callable[[str], Site], signed_in: dict[str, object]
) -> None:
    """Without scripts the first steps are walked in test_morning.py."""
    context = browser.new_context(
        base_url=site("full").address, viewport=DESKTOP, storage_state=signed_in
    )  # type: ignore[arg-type]
    tab = context.new_page()
    tab.goto("/first-steps/")
    tab.get_by_label("Categories").fill("cs.LG cs.CL cs.DC cs.AI")
    tab.get_by_label("Topics, papers or authors").fill("attention")
    effect = tab.get_by_role("region", name="Effect on recent days")
    expect(effect).to_contain_text("7 papers")
    five = ",".join(f"2603.{number:05d}" for number in (1, 11, 21, 31, 41))
    tab.get_by_label("Topics, papers or authors").fill(five)
    tab.get_by_role("button", name="Create my feed").click()
    tab.wait_for_url("**/p/reader-reads*/")
    expect(tab.locator(".head")).to_contain_text("Learned from 6 saved papers")
    expect(tab.locator(".card .chips").first).to_contain_text("close to")

    card = tab.locator(".card").first
    name = card.get_attribute("id")
    card.get_by_role("button", name="Not for me").click()
    expect(
        tab.locator(f'[id="{name}"]').get_by_role("button", name="Not for me")
    ).to_have_attribute("aria-pressed", "true")
    expect(card.locator(".star")).to_have_attribute("aria-pressed", "false")
    tab.goto("/library/?show=left")
    expect(tab.locator(f'[id="{name}"]')).to_be_visible()
    with tab.expect_response("**/library/leave/"):  # kept before the page is left
        tab.locator(f'[id="{name}"]').get_by_role("button", name="Not for me").click()

    tab.goto("/papers/2603.00001/")
    tab.get_by_role("button", name="Mark as read").click()
    tab.locator("#library summary").click()
    tab.get_by_label("Note").fill("Read **again**")
    tab.get_by_label("New list").fill("Week 11")
    tab.get_by_role("button", name="Save changes").click()
    expect(tab.locator("#library strong")).to_have_text("again")
    tab.get_by_role("button", name="Read: mark as unread").click()
    tab.goto("/library/")
    tab.get_by_role("link", name="Week 11").click()
    expect(tab.locator('[id="p-2603.00001"]')).to_be_visible()
    with tab.expect_download() as download:
        tab.get_by_role("link", name="BibTeX").first.click()
    assert download.value.path().read_text().startswith("@misc{")
    context.close()


def test_a_search_is_guessed_saved_and_fed(
    browser: Browser, site: Callable[[str], Site], signed_in: dict[str, object]
) -> None:
    context = browser.new_context(
        base_url=site("full").address, viewport=DESKTOP, storage_state=signed_in
    )  # type: ignore[arg-type]
    tab = context.new_page()
    tab.goto("/search?q=speculativ+dekoding")
    expect(tab.get_by_role("main")).to_contain_text("Showing results for speculative decoding")
    expect(tab.locator(".card mark").first).to_be_visible()
    feed = tab.get_by_role("link", name="JSON Feed").get_attribute("href")
    assert context.request.get(str(feed)).json()["items"]
    tab.get_by_role("link", name="Mail me new results").click()
    expect(tab.get_by_label("Or a search")).to_have_value("speculative decoding")
    tab.get_by_role("button", name="Subscribe").click()
    expect(tab.get_by_role("main")).to_contain_text("“speculative decoding” every day")
    tab.get_by_role("button", name="Unsubscribe from “speculative decoding”").click()
    tab.goto("/search?q=speculative+decoding")
    tab.get_by_role("link", name="Save as a feed").click()
    tab.get_by_role("button", name="Save").click()
    tab.wait_for_url("**/p/speculative-decoding/")
    # Others hold both words, too: with as many points, their order is not this test's.
    expect(tab.locator(".card", has_text="Speculative Decoding").first).to_be_visible()
    context.close()


def test_on_a_papers_page_keys_save_it_or_not_and_never_both(
    browser: Browser, site: Callable[[str], Site], signed_in: dict[str, object]
) -> None:
    context = browser.new_context(
        base_url=site("full").address, viewport=DESKTOP, storage_state=signed_in
    )  # type: ignore[arg-type]
    tab = context.new_page()
    tab.goto("/papers/2603.00022/")
    star, leave = tab.locator("button.star"), tab.locator("button.leave")
    for key, saved, left in (
        ("s", "true", "false"),
        ("n", "false", "true"),
        ("s", "true", "false"),
    ):
        tab.keyboard.press(key)
        expect(star).to_have_attribute("aria-pressed", saved)
        expect(leave).to_have_attribute("aria-pressed", left)
    tab.reload()
    expect(star).to_have_attribute("aria-pressed", "true")
    expect(leave).to_have_attribute("aria-pressed", "false")
    # While the script's own question is lost, the form asks the same one.
    tab.route("**/library/leave/", lambda route: route.abort(), times=1)
    tab.keyboard.press("n")
    tab.wait_for_load_state()
    expect(leave).to_have_attribute("aria-pressed", "true")
    tab.goto("/")
    asked: list[str] = []
    tab.on("request", lambda request: asked.append(request.url))
    tab.keyboard.press("s")  # no paper is chosen: none is saved
    tab.evaluate("fetch('/healthz').then(() => true)")
    assert [url for url in asked if "/healthz" not in url] == []
    context.close()


@pytest.mark.parametrize("scripts", [True, False], ids=["keyboard", "without scripts"])
def test_several_papers_are_chosen_listed_and_the_list_shared(
    browser: Browser, site: Callable[[str], Site], signed_in: dict[str, object], scripts: bool
) -> None:
    context = browser.new_context(
        base_url=site("full").address, viewport=DESKTOP, storage_state=signed_in,
        java_script_enabled=scripts,
    )  # type: ignore[arg-type]  # fmt: skip
    tab, name = context.new_page(), f"Week {12 + scripts}"
    tab.goto("/papers/2603.00002/")
    tab.get_by_role("button", name="Save", exact=True).click()
    expect(tab.locator("article.paper .star")).to_have_attribute("aria-pressed", "true")
    tab.goto("/library/")
    if scripts:
        tab.keyboard.press("j")
        tab.keyboard.press("x")
        tab.keyboard.press("j")
        tab.keyboard.press("x")
    else:
        for box in tab.locator("[name=chosen]").all()[:2]:
            box.check()
    expect(tab.locator("[name=chosen]:checked")).to_have_count(2)
    with tab.expect_download() as download:
        tab.get_by_role("button", name="RIS").click()
    assert download.value.path().read_text().count("ER  -") == 2
    tab.get_by_role("combobox", name="List").fill(name)
    tab.get_by_role("button", name="Add to list").click()
    expect(tab.get_by_role("status")).to_contain_text(f"2 papers are on “{name}”.")
    tab.get_by_role("link", name=name).click()
    expect(tab.locator(".card")).to_have_count(2)
    tab.get_by_role("button", name="Share by a link").click()
    address = tab.locator("#shared-address").inner_text()
    stranger = browser.new_context().new_page()
    stranger.goto(address)
    expect(stranger.locator(".card")).to_have_count(2)
    expect(stranger.locator("main form, [name=chosen]")).to_have_count(0)
    tab.get_by_role("button", name="Stop sharing").click()
    expect(tab.locator("#shared-address")).to_have_count(0)
    reply = stranger.goto(address)
    assert reply is not None
    assert reply.status == 404
    tab.get_by_role("button", name="Delete this list").click()
    tab.goto("/library/")
    tab.locator('[id="p-2603.00002"] [name=chosen]').check()
    tab.get_by_role("button", name="Remove from saved papers").click()
    expect(tab.get_by_role("status")).to_contain_text("One paper is no longer in “Saved”.")
    stranger.close()
    context.close()
