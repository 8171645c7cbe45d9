"""Every page by keyboard alone, and what a reader does without scripts."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect

from tests.browser.looks import DESKTOP
from tests.servers.site import Site

pytestmark = [pytest.mark.browser, pytest.mark.xdist_group("full")]

# Numbers what Tab must reach; of a group of radio buttons Tab reaches one.
NUMBER = """() => {
    const wanted = [...document.querySelectorAll(
        "a[href], button:enabled, input:enabled, select, textarea, summary, [tabindex='0']")];
    const groups = new Set();
    let number = 0;
    for (const node of wanted) {
        if (!node.checkVisibility({ visibilityProperty: true }) || node.type === "hidden") continue;
        if (node.type === "radio") {
            const group = [...document.getElementsByName(node.name)];
            if (groups.has(node.name) || (group.some((one) => one.checked) && !node.checked))
                continue;
            groups.add(node.name);
        }
        node.dataset.stop = number++;
    }
    return number;
}"""
# Where the focus is: its number, and what is wrong with how it is shown.
FOCUSED = """() => {
    const node = document.activeElement;
    if (node === document.body) return [null, ""];
    const shown = node.matches(".abstract input") ? node.labels[0]
        : node.matches(".choices input") ? node.closest("label") : node;
    const box = shown.getBoundingClientRect();
    const wrong = [];
    if (getComputedStyle(shown).outlineStyle === "none") wrong.push("no outline");
    if (box.width < 2 || box.height < 2) wrong.push("nothing to see");
    if (box.bottom <= 0 || box.top >= innerHeight) wrong.push("out of sight");
    const told = wrong.length ? `${wrong}: ${node.outerHTML.slice(0, 120)}` : "";
    return [node.dataset.stop === undefined ? -1 : Number(node.dataset.stop), told];
}"""


PAGES = (
    *("/", "/papers/2603.00049/", "/methods/sparse_attention/", "/search?q=attention", "/runs/"),
    *("/library/", "/library/import/", "/lists/kept-by-the-reader/", "/feeds/long-context/"),
    *("/first-steps/", "/account/mail/", "/account/tokens/"),
)


@pytest.mark.parametrize("path", PAGES)
def test_tab_reaches_everything_shows_where_it_is_and_leaves_again(
    reader: BrowserContext, path: str
) -> None:
    tab = reader.new_page()
    tab.goto(path)
    stops, reached, wrong = tab.evaluate(NUMBER), set[int](), []
    for _ in range(stops + 20):
        tab.keyboard.press("Tab")
        stop, fault = tab.evaluate(FOCUSED)
        if stop is None:
            break
        reached.add(stop)
        wrong += [fault] * bool(fault)
    else:
        pytest.fail(f"the keyboard does not leave {path}")
    assert wrong == []
    missed = tab.evaluate(
        """(reached) => [...document.querySelectorAll("[data-stop]")]
            .filter((node) => !reached.includes(Number(node.dataset.stop)))
            .map((node) => node.outerHTML.slice(0, 120))""",
        sorted(reached),
    )
    assert missed == []
    assert stops > 15


def forget(tab: Page) -> None:
    """Take away what the reader noted: what is kept of a paper counts as liked in other tests."""
    tab.locator("#library summary").click()
    tab.get_by_label("Note").fill("")
    tab.get_by_role("button", name="Save changes").click()
    expect(tab.locator("#library .note")).to_have_count(0)


def test_a_paper_is_found_kept_noted_and_a_run_asked_for_by_keyboard(
    reader: BrowserContext,
) -> None:
    tab = reader.new_page()
    tab.goto("/")
    tab.keyboard.press("Tab")
    tab.keyboard.press("Enter")  # past the head of the page
    expect(tab.locator("main")).to_be_focused()
    tab.keyboard.press("/")
    tab.keyboard.type("speculative decoding")
    tab.keyboard.press("Enter")
    tab.wait_for_url("**/search?q=speculative+decoding")
    tab.keyboard.press("j")
    card = tab.locator(".card").first
    star = card.locator(".star")
    before = star.get_attribute("aria-pressed")
    tab.keyboard.press("s")
    expect(star).not_to_have_attribute("aria-pressed", str(before))
    tab.keyboard.press("s")
    expect(star).to_have_attribute("aria-pressed", str(before))
    tab.keyboard.press("Enter")
    tab.wait_for_url("**/papers/*/")
    tab.locator("#library summary").focus()
    tab.keyboard.press("Space")
    tab.keyboard.press("Tab")
    tab.keyboard.type("By keyboard.")
    tab.keyboard.press("Tab")  # to a list, or to the name of a new one
    tab.keyboard.press("Enter")
    expect(tab.locator("#library .note")).to_contain_text("By keyboard.")
    forget(tab)
    tab.goto("/methods/sparse_attention/#run")
    tab.locator("form.run-form [name=preset]:checked").focus()
    tab.keyboard.press("ArrowDown")
    expect(tab.locator("form.run-form [name=preset]:checked")).to_have_value("full")
    tab.keyboard.press("Enter")
    tab.wait_for_url("**/runs/*/")
    tab.get_by_role("button", name="Cancel").focus()
    tab.keyboard.press("Enter")
    expect(tab.locator(".standing [role=status]")).to_contain_text("Cancelled")


def test_a_run_a_note_and_the_language_need_no_script(
    browser: Browser, site: Callable[[str], Site], signed_in: dict[str, object]
) -> None:
    context = browser.new_context(
        base_url=site("full").address, viewport=DESKTOP, storage_state=signed_in,
        java_script_enabled=False,
    )  # type: ignore[arg-type]  # fmt: skip
    tab = context.new_page()
    tab.goto("/papers/2603.00003/")
    tab.get_by_role("button", name="Mark as read").click()
    tab.locator("#library summary").click()
    tab.get_by_label("Note").fill("Without *scripts*.")
    tab.get_by_role("button", name="Save changes").click()
    expect(tab.locator("#library .note em")).to_have_text("scripts")
    tab.goto("/library/?show=read")
    expect(tab.locator('[id="p-2603.00003"]')).to_be_visible()
    tab.get_by_label("Choose 2603.00003").check()
    tab.get_by_role("button", name="Mark as unread").click()
    expect(tab.locator('[id="p-2603.00003"]')).to_have_count(0)
    tab.goto("/library/?show=notes&q=nothing+like+this")
    expect(tab.get_by_role("heading", name="No paper found")).to_be_visible()
    tab.get_by_role("link", name="Show all").click()
    expect(tab.locator('[id="p-2603.00003"]')).to_be_visible()
    tab.goto("/papers/2603.00003/")
    forget(tab)

    tab.goto("/methods/token_pruning/")
    tab.locator("form.run-form").get_by_role("radio", name="quick").check()
    tab.locator("form.run-form").get_by_role("button", name="Run", exact=True).click()
    tab.wait_for_url("**/runs/*/")
    expect(tab.locator(".standing")).to_contain_text(re.compile("Queued"))
    tab.get_by_role("button", name="Cancel").click()
    expect(tab.locator(".standing [role=status]")).to_contain_text("Cancelled")

    tab.get_by_role("button", name="简体中文").click()
    expect(tab.locator("html")).to_have_attribute("lang", "zh-hans")
    tab.get_by_role("button", name="English").click()
    expect(tab.locator("html")).to_have_attribute("lang", "en")
    context.close()
