"""Every page is accessible in every look, loads nothing from elsewhere, never overflows."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache

import pytest
from django.urls import URLPattern, URLResolver, get_resolver
from playwright.sync_api import Browser, BrowserContext
from playwright.sync_api import Page as Tab

from tests.browser.conftest import FIRST_DAYS
from tests.browser.inventory import NOT_PAGES, PAGES, Page
from tests.browser.looks import AXE, DESKTOP, PAIRS, faults, kinds, watched
from tests.servers.site import Site

pytestmark = pytest.mark.browser
FULL = pytest.mark.xdist_group("full")


def _together(page: Page) -> object:
    """Pages of the full site stay in one process: it takes longer to start than to see."""
    marks = FULL if page.scene == "full" else ()
    return pytest.param(page, marks=marks, id=str(page))


# In the order of the scenes, of which the first ones are one site (tests/browser/conftest.py).
IN_ORDER = sorted(PAGES, key=lambda page: [*FIRST_DAYS, "full"].index(page.scene))
EVERY_PAGE = pytest.mark.parametrize("page", [_together(page) for page in IN_ORDER])


def test_the_inventory_holds_every_page() -> None:
    """A URL pattern that is neither a page here nor named as no page fails."""

    def names(resolver: URLResolver, prefix: str = "") -> Iterator[str]:
        for pattern in resolver.url_patterns:
            if isinstance(pattern, URLPattern):
                yield f"{prefix}{pattern.name}"
            elif pattern.app_name != "admin":
                yield from names(pattern, f"{pattern.namespace}:" if pattern.namespace else prefix)

    there = set(names(get_resolver()))
    known = {page.view for page in PAGES} | NOT_PAGES
    assert there == known


class Tabs:
    """One tab a scene and reader, with scripts and without: opening one costs more than a page."""

    def __init__(
        self, browser: Browser, site: Callable[[str], Site], state: Callable[[], dict[str, object]]
    ) -> None:
        self.browser, self.site, self.state = browser, site, state
        self.get = cache(self._tab)
        self.made: list[BrowserContext] = []

    def _tab(self, scene: str, signed_in: bool, scripts: bool = True) -> Tab:
        context = self.browser.new_context(
            base_url=self.site(scene).address,
            storage_state=self.state() if signed_in else None,  # type: ignore[arg-type]
            bypass_csp=True,  # what the policy would refuse is seen as it is asked for
            java_script_enabled=scripts,
            viewport=DESKTOP,  # type: ignore[arg-type]
        )
        context.add_init_script(path=AXE)
        self.made.append(context)
        return context.new_page()


@pytest.fixture(scope="module")
def tabs(
    browser: Browser, site: Callable[[str], Site], request: pytest.FixtureRequest
) -> Iterator[Tabs]:
    # Signing in starts the full site, which other scenes do not need.
    made = Tabs(browser, site, lambda: request.getfixturevalue("signed_in"))
    yield made
    for context in made.made:
        context.close()


@EVERY_PAGE
def test_a_page_is_accessible_whole_and_of_one_origin(tabs: Tabs, page: Page) -> None:
    tab = tabs.get(page.scene, page.signed_in)
    with watched(tab, tabs.site(page.scene).address) as wrong:
        visit(tab, page)
        tab.evaluate("document.fonts.ready.then(() => true)")
        assert faults(tab, PAIRS[PAGES.index(page) % 2]) == []
    assert not wrong

    plain = tabs.get(page.scene, page.signed_in, scripts=False)
    visit(plain, page)
    assert plain.locator("main").is_visible()
    # What looks the same with scripts was judged above.
    if kinds(plain) - kinds(tab):
        assert faults_without_scripts(tab.context, plain) == []


def visit(tab: Tab, page: Page) -> None:
    response = tab.goto(page.path)
    assert response is not None
    assert response.status == page.status


def faults_without_scripts(context: BrowserContext, plain: Tab) -> list[str]:
    """Violations that axe finds in the document without scripts. It is put before axe where scripts
    run but the page's own do not.
    """
    html = plain.content()
    judge = context.new_page()
    judge.route("**/*.js", lambda route: route.abort())
    judge.route(plain.url, lambda route: route.fulfill(
        body=html, content_type="text/html; charset=utf-8"))  # fmt: skip
    judge.goto(plain.url)
    assert judge.locator("html[data-theme]").count() == 0
    found = faults(judge, ("light",), colours=False)  # no script sets a colour
    judge.close()
    return found


@FULL
def test_the_browser_itself_refuses_what_is_not_ours(
    browser: Browser, site: Callable[[str], Site]
) -> None:
    """The policy that the pages are served under, tried: no inline script, no foreign image."""
    context = browser.new_context(base_url=site("full").address)
    tab = context.new_page()
    tab.goto("/")
    tab.evaluate(
        """() => {
            window.refused = [];
            document.addEventListener("securitypolicyviolation", (e) =>
                window.refused.push(e.effectiveDirective));
            const script = document.createElement("script");
            script.textContent = "window.ran = true";
            document.body.append(script);
            const image = document.createElement("img");
            image.src = "https://elsewhere.example/x.png";
            document.body.append(image);
        }"""
    )
    tab.wait_for_function("window.refused.length >= 2")
    assert tab.evaluate("window.ran") is None
    assert {"script-src-elem", "img-src"} <= set(tab.evaluate("window.refused"))
    context.close()
