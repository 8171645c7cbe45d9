"""Titles, abstracts and authors written to break a page: text, no wider than a phone."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from playwright.sync_api import Browser

from tests.browser.looks import PHONE
from tests.scenes import HOSTILE
from tests.servers.site import Site

pytestmark = pytest.mark.browser

WIDTH = "document.documentElement.scrollWidth"
FOREIGN = """document.querySelectorAll(
    "main script, main style, main [onload], main [onerror], main img[src=x], [href^=javascript]"
).length"""
PATHS = ["/", "/?view=abstracts", "/search?q=faster", "/intake/", "/methods/sparse_attention/"]
PATHS += [f"/papers/2603.{number:05}/" for number in range(1, len(HOSTILE) + 1)]


def test_no_page_runs_or_widens_for_them(browser: Browser, site: Callable[[str], Site]) -> None:
    address = site("hostile").address
    context = browser.new_context(base_url=address, viewport=PHONE)  # type: ignore[arg-type]
    page, ran = context.new_page(), []
    page.on("dialog", lambda dialog: (ran.append(dialog.message), dialog.dismiss()))
    for path in PATHS:
        answer = page.goto(path)
        assert answer
        assert answer.status == 200, path
        assert page.evaluate(WIDTH) <= PHONE["width"], path
        assert page.evaluate(FOREIGN) == 0, path
        assert page.title() != "owned"
        assert page.locator("main").is_visible()
        assert "\u202e" not in page.content()
    assert ran == []
    context.close()
