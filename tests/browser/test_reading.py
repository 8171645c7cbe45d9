"""A reader at work: keys, chips, theme, saving, profiles, with scripts and without."""

from __future__ import annotations

import re
from collections.abc import Callable
from statistics import median

import pytest
from playwright.sync_api import Browser, BrowserContext, Locator, Page, expect

from tests.browser.looks import LOOKS, PHONE, pale
from tests.servers.site import Site

pytestmark = [pytest.mark.browser, pytest.mark.xdist_group("full")]


def test_the_keys_walk_through_a_day(anyone: BrowserContext) -> None:
    tab = anyone.new_page()
    tab.goto("/")
    cards = tab.locator(".card")
    tab.keyboard.press("j")
    expect(cards.nth(0).locator("h2 a")).to_be_focused()
    tab.keyboard.press("j")
    tab.keyboard.press("j")
    expect(cards.nth(2).locator("h2 a")).to_be_focused()
    tab.keyboard.press("k")
    expect(cards.nth(1).locator("h2 a")).to_be_focused()
    expect(cards.nth(1)).to_be_in_viewport()
    tab.keyboard.press("o")
    expect(cards.nth(1).locator(".abstract input")).to_be_checked()
    tab.keyboard.press("o")
    expect(cards.nth(1).locator(".abstract input")).not_to_be_checked()
    tab.keyboard.press("/")
    expect(tab.locator("#find")).to_be_focused()
    tab.keyboard.type("jjo?")
    expect(tab.locator("#find")).to_have_value("jjo?")
    tab.keyboard.press("Escape")
    tab.keyboard.press("?")
    expect(tab.get_by_role("dialog", name="Keyboard")).to_be_visible()
    tab.keyboard.press("Escape")
    expect(tab.get_by_role("dialog")).to_be_hidden()
    tab.keyboard.press("Control+j")
    tab.keyboard.press("j")
    tab.keyboard.press("Enter")
    tab.wait_for_url(re.compile(r"/papers/2603\.\d{5}/$"))


def test_v_leads_to_arxiv(anyone: BrowserContext) -> None:
    tab = anyone.new_page()
    anyone.route("https://arxiv.org/**", lambda route: route.fulfill(body="arXiv"))
    tab.goto("/")
    tab.keyboard.press("j")
    tab.keyboard.press("v")
    tab.wait_for_url(re.compile(r"https://arxiv\.org/abs/2603\.\d{5}"))


def test_every_control_can_be_reached_by_tab_and_shows_it(anyone: BrowserContext) -> None:
    tab = anyone.new_page()
    tab.goto("/")
    tab.keyboard.press("Tab")
    expect(tab.get_by_text("Skip to the content")).to_be_focused()
    expect(tab.get_by_text("Skip to the content")).to_be_in_viewport()
    seen = set()
    for _ in range(40):
        tab.keyboard.press("Tab")
        name, outline = tab.evaluate(
            """() => {
                const e = document.activeElement;
                const shown = e.matches(".abstract input") ? e.labels[0] : e;
                return [e.tagName + (e.className || e.name || e.textContent.trim()),
                        getComputedStyle(shown).outlineStyle];
            }"""
        )
        seen.add(name)
        assert outline != "none", name
    assert len(seen) > 15


def test_a_part_of_the_score_lights_up_in_the_text(anyone: BrowserContext) -> None:
    tab = anyone.new_page()
    tab.goto("/")
    chip = tab.locator(".chips [data-k]").first
    key = chip.get_attribute("data-k")
    mark = tab.locator(".card").first.locator(f'mark[data-k~="{key}"]').first
    calm = mark.evaluate("e => getComputedStyle(e).backgroundColor")
    chip.hover()
    expect(mark).not_to_have_css("background-color", calm)
    tab.mouse.move(0, 0)
    expect(mark).to_have_css("background-color", calm)


def test_the_theme_is_kept_without_a_flash(browser: Browser, site: Callable[[str], Site]) -> None:
    context = browser.new_context(base_url=site("full").address, color_scheme="light")
    tab = context.new_page()
    tab.goto("/")
    light = tab.evaluate("getComputedStyle(document.documentElement).backgroundColor")
    button = tab.get_by_role("button", name="Dark theme")
    expect(button).to_have_attribute("aria-pressed", "false")
    button.click()
    expect(button).to_have_attribute("aria-pressed", "true")
    dark = tab.evaluate("getComputedStyle(document.documentElement).backgroundColor")
    assert dark != light
    # Before the body is there, the choice stands already.
    tab.add_init_script(
        """new MutationObserver((_, watching) => { if (document.body) {
            window.first = getComputedStyle(document.documentElement).backgroundColor;
            watching.disconnect();
        } }).observe(document, {childList: true, subtree: true})"""
    )
    tab.goto("/intake/")
    assert tab.evaluate("window.first") == dark
    context.close()


def test_saving_stays_in_place_and_is_kept(reader: BrowserContext) -> None:
    tab = reader.new_page()
    tab.goto("/")
    card = tab.locator(".card").nth(5).get_attribute("id")
    button = tab.locator(".card").nth(5).get_by_role("button", name="Save")
    expect(button).to_have_attribute("aria-pressed", "false")
    for _ in range(6):
        tab.keyboard.press("j")
    tab.keyboard.press("s")
    expect(button).to_have_attribute("aria-pressed", "true")
    assert tab.url.endswith("/")
    tab.reload()
    expect(button).to_have_attribute("aria-pressed", "true")
    tab.goto("/library/")
    expect(tab.locator(f'[id="{card}"]')).to_be_visible()
    tab.goto("/")
    button.click()
    expect(button).to_have_attribute("aria-pressed", "false")


def test_a_dimmed_row_can_be_read_and_so_can_its_marks(reader: BrowserContext) -> None:
    """One that is not for this reader, in every look, with each part of the score lit."""
    tab = reader.new_page()
    tab.goto("/?view=abstracts")
    card = tab.locator(".card:has(.chips [data-k]):has(.abstract mark)").nth(2)
    leave = card.locator(".leave")
    leave.click()
    expect(leave).to_have_attribute("aria-pressed", "true")
    chosen = f'[id="{card.get_attribute("id")}"]'
    try:
        for look, (scheme, viewport) in LOOKS.items():
            tab.emulate_media(color_scheme=scheme, reduced_motion="reduce")  # type: ignore[arg-type]
            tab.set_viewport_size(viewport)  # type: ignore[arg-type]
            label = card.locator(".abstract label")
            if label.is_visible() and not card.locator(".abstract input").is_checked():
                label.click()
            for chip in tab.locator(f"{chosen} .chips [data-k]").all():
                if chip.is_visible():
                    chip.hover()
                    judged, faint = pale(tab, chosen)
                    assert {"a", "mark", "button"} <= judged
                    assert not faint, (look, chip.inner_text())
    finally:
        leave.click()  # others see the same site
        expect(leave).to_have_attribute("aria-pressed", "false")


def test_a_session_that_ended_leads_to_the_sign_in(reader: BrowserContext) -> None:
    tab = reader.new_page()
    tab.goto("/")
    reader.clear_cookies(name="sessionid")
    tab.locator(".card").first.get_by_role("button", name="Save").click()
    tab.wait_for_url("**/sign-in/**")


def keywords_as_text(tab: Page) -> Locator:
    """The keywords as one text, which the rows write into."""
    tab.get_by_role("button", name="Edit as text").click()
    return tab.locator("#id_keywords")


def test_a_profile_is_made_previewed_changed_and_deleted(reader: BrowserContext) -> None:
    tab = reader.new_page()
    tab.goto("/feeds/")
    tab.get_by_role("link", name="New feed").click()
    tab.get_by_label("Name").fill("Kernels")
    tab.get_by_label("Categories").fill("cs.LG cs.DC")
    keywords_as_text(tab).fill("/(/")
    tab.get_by_role("button", name="Preview").click()
    expect(tab.get_by_role("alert")).to_contain_text("Nothing was saved")
    expect(tab.locator("#id_keywords")).to_have_attribute("aria-invalid", "true")
    keywords_as_text(tab).fill("Kernel ; 2\nsparse")
    tab.get_by_role("button", name="Preview").click()
    expect(tab.get_by_role("region", name="Effect on recent days")).to_be_visible()
    tab.get_by_role("button", name="Save").click()
    tab.wait_for_url("**/p/kernels/")
    expect(tab.locator(".card").first).to_be_visible()
    tab.goto("/feeds/kernels/")
    keywords_as_text(tab).fill("sparse")
    tab.get_by_role("button", name="Preview").click()
    expect(tab.get_by_role("region", name="Effect on recent days")).to_contain_text("removed")
    tab.get_by_text("Delete this feed").click()
    tab.get_by_role("button", name="Delete “Kernels”").click()
    tab.wait_for_url("**/feeds/")
    expect(tab.get_by_role("status")).to_contain_text("deleted")


def test_times_are_relative_with_the_absolute_on_hover(anyone: BrowserContext) -> None:
    tab = anyone.new_page()
    tab.goto("/")
    time = tab.locator(".head time")
    expect(time).to_have_text(re.compile(r"ago|yesterday|last|in "))
    expect(time).to_have_attribute("title", "12 Mar 2026, 06:10 UTC")


def test_a_citation_is_copied(browser: Browser, site: Callable[[str], Site]) -> None:
    address = site("full").address
    context = browser.new_context(base_url=address)
    context.grant_permissions(["clipboard-read", "clipboard-write"], origin=address)
    tab = context.new_page()
    tab.goto("/papers/2603.00049/")
    tab.get_by_role("button", name="Copy").click()
    expect(tab.get_by_role("button", name="Copied")).to_be_visible()
    assert tab.evaluate("navigator.clipboard.readText()").startswith("@misc{")
    context.close()


def test_mathematics_is_drawn(anyone: BrowserContext) -> None:
    tab = anyone.new_page()
    tab.goto("/papers/2603.00049/")
    box = tab.locator(".prose math").first.bounding_box()
    assert box is not None
    assert box["width"] > 8
    tab.goto("/papers/hep-th/9901001/")
    expect(tab.locator("h1 code.tex, h1")).to_contain_text(["$\\broken{"])


def test_reading_saving_and_narrowing_work_without_javascript(
    browser: Browser, site: Callable[[str], Site], signed_in: dict[str, object]
) -> None:
    context = browser.new_context(
        base_url=site("full").address,
        java_script_enabled=False,
        viewport=PHONE,
        storage_state=signed_in,
    )  # type: ignore[arg-type]
    tab = context.new_page()
    tab.goto("/")
    card = tab.locator(".card").first
    text = card.locator(".abstract .text")
    expect(text).to_be_hidden()  # a sentence stands there until the abstract is opened
    card.locator(".abstract label").click()
    expect(text).to_be_visible()
    button = card.get_by_role("button", name="Save")
    before = button.get_attribute("aria-pressed")
    button.click()
    expect(button).not_to_have_attribute("aria-pressed", str(before))
    button.click()  # others see the same site
    expect(button).to_have_attribute("aria-pressed", str(before))
    tab.get_by_role("link", name="Filter and sort").click()
    tab.get_by_role("complementary", name="Filter and sort").get_by_text("Kernel").click()
    expect(tab.locator(".chosen")).to_contain_text("Only Kernel")
    context.close()


def test_print_shows_whole_abstracts_and_no_controls(anyone: BrowserContext) -> None:
    tab = anyone.new_page()
    tab.goto("/")
    tab.emulate_media(media="print")
    expect(tab.locator(".rail")).to_be_hidden()
    expect(tab.locator(".find")).to_be_hidden()
    expect(tab.locator(".card .abstract .text").first).to_have_css("display", "block")


def test_one_key_shows_abstracts_for_good(anyone: BrowserContext) -> None:
    tab = anyone.new_page()
    tab.set_viewport_size({"width": 1440, "height": 900})
    tab.goto("/")
    whole = (
        "cards => cards.filter(card => card.getBoundingClientRect().bottom <= innerHeight).length"
    )
    rows = tab.locator(".card").evaluate_all(whole)
    card = tab.locator(".card").first
    text = card.locator(".abstract .text")
    expect(text).to_be_hidden()
    card.locator(".abstract label").click()
    expect(text).to_be_visible()
    tab.keyboard.press("d")
    expect(tab.get_by_role("link", name="Abstracts")).to_have_attribute("aria-current", "true")
    assert tab.locator(".card").evaluate_all(whole) < rows
    tab.reload()
    assert tab.locator(".card").evaluate_all(whole) < rows
    tab.keyboard.press("d")
    assert tab.locator(".card").evaluate_all(whole) == rows


def test_an_abstract_begins_where_it_says_what_the_paper_does(anyone: BrowserContext) -> None:
    tab = anyone.new_page()
    tab.goto("/?view=abstracts")
    card = tab.locator(".card", has=tab.locator(".before")).first
    before = card.locator(".before")
    expect(before).to_be_hidden()
    card.locator(".abstract label").click()
    expect(before).to_be_visible()


def test_ten_rows_of_short_sentences_fit_a_desktop(anyone: BrowserContext) -> None:
    tab = anyone.new_page()
    tab.set_viewport_size({"width": 1440, "height": 900})
    tab.goto("/")
    rows = tab.locator("#cards > .card")
    above = rows.first.evaluate("one => one.getBoundingClientRect().top")
    # Few days say that one after them failed.
    above -= tab.locator(".head .notice").evaluate("one => one.offsetHeight + 6")
    short = rows.evaluate_all(
        """rows => rows.filter(row => [".did", ".reports", "h2"].every(part =>
            (row.querySelector(part)?.offsetHeight ?? 0) < 30)).map(row => row.offsetHeight)"""
    )
    assert len(short) >= 3
    assert above + 10 * max(short) <= 900


# Of a row: what is cut of its title, sentence, quote and reasons, and where Tab stops.
ROW = """row => {
    const parts = ["h2", ".did", ".reports"].map(part => row.querySelector(part));
    const cut = parts.filter(one => one && getComputedStyle(one).overflowY !== "visible"
        && one.scrollHeight > one.clientHeight + 1);
    const shown = [...row.querySelectorAll(".chips li")].filter(one => one.checkVisibility());
    const side = row.querySelector(".beside").getBoundingClientRect();
    const beyond = shown.filter(one => one.scrollWidth > one.clientWidth + 1
        || one.getBoundingClientRect().right > side.right + 1);
    const label = row.querySelector(".abstract label").getBoundingClientRect();
    const texts = row.querySelectorAll(".did, .reports, .chips li, .tools button");
    const under = [...texts].filter(one => [...one.getClientRects()].some(box =>
        box.right > label.left + 1 && box.bottom > label.top + 6 && box.top < label.bottom - 6));
    const stops = [...row.querySelectorAll("a[href], button, input")];
    return {
        cut: [...cut, ...beyond, ...under].map(one => one.innerText),
        reasons: shown.length,
        stops: stops.filter(one => one.checkVisibility()).length,
    };
}"""


@pytest.mark.parametrize(
    ("scene", "pages"),
    [
        ("sample", ["digest/2025-12-18/", "category/cs.LG/?date=2025-12-18", "search?q=attention"]),
        ("days", ["digest/2026-05-19/", "digest/2026-06-03/", "digest/2026-06-10/"]),
    ],
)
def test_no_sentence_and_no_reason_of_a_row_is_cut(
    browser: Browser, site: Callable[[str], Site], scene: str, pages: list[str]
) -> None:
    of_scene = site(scene)
    context = browser.new_context(base_url=of_scene.address)
    tab = context.new_page()
    tab.goto(f"/sign-in/{of_scene.tokens.pop()}/")
    tab.get_by_role("main").get_by_role("button", name="Sign in").click()
    tab.get_by_role("button", name="Sign out").wait_for()
    rows = []
    for _ in range(2):  # signed in, and not: then no buttons stand in a row
        for viewport in ({"width": 1280, "height": 900}, PHONE):
            tab.set_viewport_size(viewport)  # type: ignore[arg-type]
            for page in pages:
                tab.goto(f"/{page}")
                rows += tab.evaluate(f"[...document.querySelectorAll('#cards > .card')].map({ROW})")
                assert tab.evaluate("document.documentElement.scrollWidth") <= viewport["width"]
        context.clear_cookies()
    context.close()
    assert len(rows) > 40
    assert sum(row["reasons"] for row in rows) > 40
    for row in rows:
        assert row["cut"] == []
        assert row["stops"] <= 4
    assert median(row["stops"] for row in rows) <= 3


def test_a_sentence_that_is_cut_is_noticed(anyone: BrowserContext) -> None:
    tab = anyone.new_page()
    tab.goto("/")
    row = tab.locator("#cards > .card").first
    assert row.evaluate(ROW)["cut"] == []
    row.locator(".did").evaluate("one => one.textContent = 'long words '.repeat(500)")
    assert len(row.evaluate(ROW)["cut"]) == 1


def test_the_effect_stands_beside_the_form_and_moves_nothing(reader: BrowserContext) -> None:
    tab = reader.new_page()
    tab.set_viewport_size({"width": 1440, "height": 900})
    tab.goto("/feeds/long-context/")
    name = tab.get_by_label("Name")
    place = "e => [e.getBoundingClientRect().top + scrollY, e.offsetWidth]"
    before = name.evaluate(place)
    tab.get_by_text("Advanced").click()
    tab.get_by_label("Minimum score").fill("1")
    effect = tab.get_by_role("region", name="Effect on recent days")
    expect(effect).to_be_visible()
    assert name.evaluate(place) == before
    ends = [one.evaluate("e => e.getBoundingClientRect().right") for one in (name, effect)]
    starts = effect.evaluate("e => e.getBoundingClientRect().left")
    assert ends[0] < starts < ends[1] <= 1440


def test_on_a_phone_narrowing_opens_over_the_list_and_closes(anyone: BrowserContext) -> None:
    tab = anyone.new_page()
    tab.set_viewport_size(PHONE)  # type: ignore[arg-type]
    tab.goto("/")
    sheet = tab.locator(".rail")
    expect(sheet).to_be_hidden()
    tab.get_by_role("link", name="Filter and sort").click()
    expect(sheet).to_be_in_viewport()
    tab.keyboard.press("Escape")
    expect(sheet).to_be_hidden()


def test_keywords_are_rows_and_text(reader: BrowserContext) -> None:
    tab = reader.new_page()
    tab.goto("/feeds/new/")
    rows = tab.locator(".keyword-rows tbody tr")
    rows.first.get_by_label("Word or phrase").fill("sparse attention | block-sparse")
    rows.first.get_by_label("Weight").fill("2")
    tab.get_by_role("button", name="Add a keyword").click()
    rows.nth(1).get_by_label("Word or phrase").fill("kernel")
    text = tab.locator("#id_keywords")
    expect(text).to_have_value("sparse attention | block-sparse ; 2\nkernel")
    tab.get_by_role("button", name="Edit as text").click()
    text.fill("linear attention ; 3 ; 1\nMamba")
    tab.get_by_role("button", name="Edit as rows").click()
    expect(rows).to_have_count(2)
    rows.nth(1).get_by_role("button", name="Remove").click()
    expect(text).to_have_value("linear attention ; 3 ; 1")


def test_the_effect_on_past_days_follows_the_typing(reader: BrowserContext) -> None:
    tab = reader.new_page()
    tab.goto("/feeds/long-context/")
    expect(tab.locator("#preview")).to_have_count(0)
    keywords_as_text(tab).fill("kernel")
    effect = tab.get_by_role("region", name="Effect on recent days")
    expect(effect).to_be_visible()
    before = effect.inner_text()
    tab.locator("#id_keywords").fill("nothing that any paper holds")
    expect(effect).not_to_have_text(before)
    expect(tab.locator("#id_keywords")).to_have_value("nothing that any paper holds")
