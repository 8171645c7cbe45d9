"""Every state of a run is a page that all can read, and that follows the run."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.request import urlopen

import pytest
from playwright.sync_api import Browser, expect

from tests.browser.looks import AXE, DESKTOP, PAIRS, PHONE, faults, watched
from tests.processes import ROOT, free_port, wait_for
from tests.runs.rig import Rig

pytestmark = [pytest.mark.browser, pytest.mark.slow]


@contextmanager
def served(rig: Rig, static: Path, application: str = "webapp.wsgi") -> Iterator[str]:
    """The address of the site over a rig's data."""
    rig.migrate()
    environment = {**rig.environment, "DJANGO_SETTINGS_MODULE": "webapp.settings"}
    environment["ASSAY_STATIC"] = str(static)
    port = free_port()
    web = subprocess.Popen(
        [sys.executable, "-m", "gunicorn", "--bind", f"127.0.0.1:{port}", application],
        cwd=ROOT,
        env=environment | {"WEB_CONCURRENCY": "1"},
        stderr=subprocess.DEVNULL,
    )
    address = f"http://127.0.0.1:{port}"

    def answers() -> bool:
        try:
            with urlopen(f"{address}/healthz") as answer:
                return answer.status == 200
        except OSError:
            return False

    try:
        wait_for(answers, "the site")
        yield address
    finally:
        web.terminate()
        web.wait()


@pytest.fixture(scope="module")
def still(
    tmp_path_factory: pytest.TempPathFactory, django_db_blocker, collected: Path
) -> Iterator[tuple[str, dict[str, str], str]]:
    """A site without workers over a run in every state: address, pages by name, a session."""
    from tests.runs import scenes
    from webapp.readers import links

    rig = Rig(tmp_path_factory.mktemp("still"), lease=3600)
    with django_db_blocker.unblock(), rig.connected(), served(rig, collected) as address:
        reader = links.reader_named("ada")
        made = scenes.every_state(reader)
        scenes.measured(reader, 1.3)
        scenes.measured(reader, 0.1, "NVIDIA H200")
        pages = {name: f"/runs/{run.pk}/" for name, run in made.items()}
        pages |= {
            "list": "/runs/",
            "no run fits": "/runs/?method=nothing",
            "form": "/methods/sparse_attention/run/latency/",
            "workers": "/workers/",
            "tokens": "/account/tokens/",
            "api": "/api/docs",
        }
        yield address, pages, links.make_link(reader)
        rig.stop()


@pytest.fixture(scope="module")
def session(browser: Browser, still: tuple[str, dict[str, str], str]) -> dict[str, object]:
    """The browser state of a signed-in reader."""
    context = browser.new_context()
    page = context.new_page()
    page.goto(f"{still[0]}/sign-in/{still[2]}/")
    page.get_by_role("main").get_by_role("button", name="Sign in").click()
    page.get_by_role("button", name="Sign out").wait_for()
    state = context.storage_state()
    context.close()
    return dict(state)


def test_every_state_is_accessible_whole_and_of_one_origin(
    browser: Browser, still, session
) -> None:
    address, pages, _ = still
    context = browser.new_context(storage_state=session, bypass_csp=True)
    context.add_init_script(path=AXE)
    tab, found = context.new_page(), {}
    for number, (name, path) in enumerate(pages.items()):
        with watched(tab, address) as wrong:
            response = tab.goto(address + path)
            if response is None or response.status != 200:
                wrong.append(f"answered {response and response.status}")
            for details in tab.locator("main details").all():
                details.evaluate("node => node.open = true")
            tab.wait_for_load_state("load")
            wrong.extend(faults(tab, PAIRS[number % 2]))
        if wrong:
            found[name] = wrong
    context.close()
    assert found == {}


@pytest.mark.parametrize("size", [DESKTOP, PHONE], ids=["desktop", "phone"])
def test_what_was_measured_is_read_without_scrolling_to_the_side(
    browser: Browser, still, size: dict[str, int]
) -> None:
    address, pages, _ = still
    context = browser.new_context(viewport=size)  # type: ignore[arg-type]
    page = context.new_page()
    hidden = "all => all.map(one => one.scrollWidth - one.clientWidth)"
    page.goto(address + pages["succeeded"])
    for details in page.locator("main details").all():
        details.evaluate("node => node.open = true")
    assert set(page.locator(".wide").evaluate_all(hidden)) == {0}
    assert page.locator("main").get_by_text("faster").last.is_visible()
    context.close()


def test_a_hidden_page_asks_nothing_and_a_site_that_is_gone_is_told(
    browser: Browser, still, session
) -> None:
    address, pages, _ = still
    context = browser.new_context(storage_state=session)
    page = context.new_page()
    page.goto(address + pages["running"])
    polls: list[str] = []
    page.on("request", lambda request: polls.append(request.url)
            if "/live?" in request.url else None)  # fmt: skip
    page.evaluate("Object.defineProperty(document, 'hidden', { value: true, writable: true })")
    page.evaluate("fetch('/healthz').then(() => true)")  # after which no earlier poll is told
    polls.clear()
    time.sleep(3)
    assert polls == []
    with page.expect_request("**/live?*"):
        page.evaluate(
            "document.hidden = false; document.dispatchEvent(new Event('visibilitychange'))"
        )
    context.set_offline(True)
    expect(page.locator("[data-lost]")).to_be_visible()
    context.set_offline(False)
    expect(page.locator("[data-lost]")).to_be_hidden()
    context.close()


def test_without_javascript_a_reload_follows_the_run(browser: Browser, still) -> None:
    address, pages, _ = still
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(address + pages["running"])
    expect(page.get_by_text("without JavaScript, reload it")).to_be_visible()
    expect(page.locator("#log")).to_contain_text("warming up <b>variants</b>")
    page.reload()
    expect(page.locator(".standing")).to_contain_text("42 %")
    context.close()
