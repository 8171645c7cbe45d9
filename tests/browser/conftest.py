"""One gunicorn a scene, for all browser tests."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from playwright.sync_api import Browser, BrowserContext, expect

from tests import databases
from tests.browser.looks import DESKTOP
from tests.processes import PATIENCE
from tests.servers.site import Site, serving

expect.set_options(timeout=1000 * PATIENCE)
FIRST_DAYS = ("empty", "unreachable", "sample")  # scenes of which each holds what was before it


@pytest.fixture(scope="session")
def site(
    tmp_path_factory: pytest.TempPathFactory, collected: Path
) -> Iterator[Callable[[str], Site]]:
    """The site over a scene, started when first asked for, or grown out of an earlier one."""
    started: dict[str, Site] = {}
    with ExitStack() as stack:

        def start(scene: str) -> Site:
            if scene in started:
                return started[scene]
            before = FIRST_DAYS[: FIRST_DAYS.index(scene)] if scene in FIRST_DAYS else ()
            if earlier := next((one for one in before if one in started), None):
                started[scene] = started.pop(earlier)
                started[scene].fill(scene)
                return started[scene]
            data = tmp_path_factory.mktemp(scene)
            databases.copy_to(data / "assay.sqlite3")
            started[scene] = stack.enter_context(serving(data, scene, static=collected))
            return started[scene]

        yield start


@pytest.fixture(scope="session")
def signed_in(browser: Browser, site: Callable[[str], Site]) -> dict[str, object]:
    """The browser state of a reader who signed in with a link."""
    full = site("full")
    context = browser.new_context()
    page = context.new_page()
    page.goto(f"{full.address}/sign-in/{full.tokens.pop()}/")
    page.get_by_role("main").get_by_role("button", name="Sign in").click()
    page.get_by_role("button", name="Sign out").wait_for()
    state = context.storage_state()
    context.close()
    return dict(state)


@pytest.fixture
def reader(
    browser: Browser, site: Callable[[str], Site], signed_in: dict[str, object]
) -> Iterator[BrowserContext]:
    """A fresh context of the signed-in reader."""
    context = browser.new_context(
        base_url=site("full").address, viewport=DESKTOP, storage_state=signed_in
    )  # type: ignore[arg-type]
    yield context
    context.close()


@pytest.fixture
def anyone(browser: Browser, site: Callable[[str], Site]) -> Iterator[BrowserContext]:
    """A fresh context of somebody new."""
    context = browser.new_context(base_url=site("full").address, viewport=DESKTOP)
    yield context
    context.close()
