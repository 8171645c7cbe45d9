"""A formula that is wider than a phone scrolls within itself and never widens the page."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

import pytest
from django.template.loader import render_to_string
from playwright.sync_api import Browser, Page, expect

from tests.browser.looks import AXE, PHONE, faults
from tests.scenes import FORMULAS
from tests.servers.site import Site

pytestmark = pytest.mark.browser

WIDTH = "document.documentElement.scrollWidth"
# Each shown formula: whether its end can be reached, and whether it is wider than its place.
SEEN = """(all) => all.filter((one) => one.checkVisibility() && one.clientWidth).map((one) => {
    one.scrollLeft = 1e6;
    const hidden = one.scrollWidth - one.clientWidth;
    return [Math.abs(one.scrollLeft - hidden) <= 1, hidden > 1];
})"""


@pytest.fixture(scope="module")
def tab(browser: Browser, site: Callable[[str], Site]) -> Iterator[Page]:
    context = browser.new_context(
        base_url=site("formulas").address, viewport=PHONE, bypass_csp=True
    )  # type: ignore[arg-type]
    context.add_init_script(path=AXE)
    yield context.new_page()
    context.close()


@pytest.mark.parametrize(
    "path", ["/", "/?view=abstracts", "/search?q=sparse", "/papers/2603.00001/",
             "/papers/2603.00002/", "/papers/2603.00003/"]
)  # fmt: skip
def test_a_long_formula_scrolls_and_the_page_does_not(tab: Page, path: str) -> None:
    tab.goto(path)
    expect(tab.locator("main math").first).to_be_attached()
    for label in tab.locator(".abstract label").all():
        if label.is_visible():  # else the abstract is whole already
            label.click()
    assert tab.evaluate(WIDTH) <= PHONE["width"]
    seen = tab.locator("main :not(a, a *) > math").evaluate_all(SEEN)
    if "papers" in path or "abstracts" in path:
        assert any(wide for _, wide in seen)
    assert all(reached for reached, _ in seen)
    short = tab.locator("main math", has_text=re.compile(r"^\s*n\s*2\s*$")).evaluate_all(SEEN)
    assert not [one for one in short if one[1]]
    assert faults(tab, ("phone", "dark phone")) == []


def test_a_short_formula_stands_on_its_line(tab: Page) -> None:
    """A formula that may scroll keeps the baseline of one that may not."""
    tab.goto("/papers/2603.00001/")
    formula = tab.locator(".prose math", has_text=re.compile(r"^\s*n\s*2\s*$")).first
    before = formula.bounding_box()
    formula.evaluate("one => { one.style.overflow = 'visible' }")
    assert formula.bounding_box() == before


def test_a_mail_with_a_long_formula_is_as_wide_as_a_phone(tab: Page) -> None:
    line = {"address": "#", "title": FORMULAS[0], "authors": "Ada", "gist": FORMULAS[1],
            "reason": "Sparse +1", "methods": "", "links": [("PDF", "#")]}  # fmt: skip
    given = {"delivery": {"name": FORMULAS[2]}, "lines": [line], "mentioned": [line], "end": "#"}
    tab.set_content(render_to_string("mail/digest.html", given))
    assert tab.evaluate(WIDTH) <= PHONE["width"]


def test_a_formula_in_a_title_is_drawn_where_papers_are_offered(
    browser: Browser, site: Callable[[str], Site]
) -> None:
    full = site("formulas")
    context = browser.new_context(base_url=full.address, viewport=PHONE)  # type: ignore[arg-type]
    tab = context.new_page()
    tab.goto(f"/sign-in/{full.tokens.pop()}/")
    tab.get_by_role("main").get_by_role("button", name="Sign in").click()
    tab.get_by_role("button", name="Sign out").wait_for()
    tab.goto("/first-steps/")
    expect(tab.locator("form math").first).to_be_attached()
    assert "$" not in tab.get_by_role("group", name="Which of these would you read?").inner_text()
    assert tab.evaluate(WIDTH) <= PHONE["width"]
    context.close()
