"""A page has few styles of type: sizes and weights from one scale."""

from __future__ import annotations

from collections.abc import Callable

from playwright.sync_api import Browser

from tests.browser.conftest import Site

MOST = 8
# The text that is shown, without drawings and formulas, whose labels follow scales of their own.
STYLES = """() => {
    const styles = new Map();
    const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    while (walker.nextNode()) {
        const text = walker.currentNode, holder = text.parentElement;
        if (!text.data.trim() || holder.closest("svg, math, .unseen, script, style")) continue;
        const range = document.createRange();
        range.selectNodeContents(text);
        if (!range.getClientRects().length) continue;
        const style = getComputedStyle(holder);
        const name = [style.fontSize, style.fontWeight, style.fontStyle].join(" ");
        styles.set(name, text.data.trim().slice(0, 40));
    }
    return Object.fromEntries(styles);
}"""
PAGES = (
    *("/", "/?view=abstracts", "/papers/2512.02700/", "/methods/sparse_attention/", "/runs/"),
    *("/library/", "/first-steps/", "/feeds/", "/search?q=attention", "/account/"),
)


def test_pages_have_few_styles_of_type(browser: Browser, site: Callable[[str], Site]) -> None:
    sample = site("sample")
    context = browser.new_context(base_url=sample.address)
    tab = context.new_page()
    tab.goto(f"/sign-in/{sample.tokens.pop()}/")
    tab.get_by_role("main").get_by_role("button", name="Sign in").click()
    addresses = [*PAGES]
    tab.goto("/runs/")
    run = tab.locator("main a[href^='/runs/']:not([href*='?'])").first.get_attribute("href")
    addresses.append(run or "")
    styles = {}
    for address in addresses:
        tab.goto(address)
        for width in (1280, 390):
            tab.set_viewport_size({"width": width, "height": 900})
            styles[f"{address} at {width}"] = tab.evaluate(STYLES)
    context.close()
    assert all(styles.values())
    many = [f"{address}: {shown}" for address, shown in styles.items() if len(shown) > MOST]
    assert many == [], "\n".join(many)
