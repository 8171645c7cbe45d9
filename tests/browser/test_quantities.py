"""From a paper's number to others that report it, and back, phone or not, without script."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
from playwright.sync_api import Browser, expect

from tests.browser.looks import AXE, DESKTOP, PHONE, faults
from tests.servers.site import Site

pytestmark = [pytest.mark.browser, pytest.mark.xdist_group("sample")]


@pytest.mark.parametrize(
    ("viewport", "javascript"),
    [(DESKTOP, True), (PHONE, False)],
    ids=["desktop-scripts", "phone-no scripts"],
)
def test_from_a_number_to_others_and_to_its_place(
    browser: Browser, site: Callable[[str], Site], viewport: Any, javascript: bool
) -> None:
    context = browser.new_context(
        base_url=site("sample").address, viewport=viewport, java_script_enabled=javascript
    )
    tab = context.new_page()
    tab.goto("/papers/2512.14082/")
    number = tab.locator("a.quantity").first
    written = number.inner_text()
    tab.get_by_text(re.compile("of these numbers, explained")).click()
    expect(tab.locator(".tuples table")).to_be_visible()
    number.click()
    expect(tab).to_have_url(re.compile(r"/quantities/\?metric="))
    # Who reports a number is seen beside it, on a phone before anything is scrolled sideways.
    title = tab.locator("td.source a").first
    title.scroll_into_view_if_needed()
    assert tab.evaluate("document.querySelector('.wide').scrollLeft") == 0
    expect(title).to_be_in_viewport(ratio=0.95)
    back = tab.locator("td.num a").filter(has_text=written).first
    back.click()
    expect(tab).to_have_url(re.compile(r"/papers/2512\.14082/#number-\d+$"))
    place = tab.locator(f'[id="{tab.url.split("#")[1]}"]')
    expect(place).to_have_text(written)
    expect(place).to_be_in_viewport()
    context.close()


def test_the_pages_are_accessible_and_fit(browser: Browser, site: Callable[[str], Site]) -> None:
    context = browser.new_context(base_url=site("sample").address, viewport=DESKTOP)
    context.add_init_script(path=AXE)
    tab = context.new_page()
    for address in ("/quantities/", "/papers/2512.14082/"):
        tab.goto(address)
        for details in tab.locator("details.tuples").all():
            details.locator("summary").click()
        assert not faults(tab, ("phone", "dark"))
    tab.goto("/papers/2512.14082/")
    tab.locator("a.quantity").first.click()
    assert not faults(tab, ("phone", "dark"))
    context.close()
