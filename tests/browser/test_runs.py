"""A reader runs the real benchmark and watches it; every state is a page that all can read."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit
from urllib.request import urlopen

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.browser.looks import AXE, DESKTOP, PAIRS, PHONE, faults, watched
from tests.processes import ROOT, wait_for
from tests.runs.rig import Rig, free_port

pytestmark = [pytest.mark.browser, pytest.mark.slow]

BENCHMARK_SECONDS = 300  # it takes twenty on an idle machine


@contextmanager
def served(rig: Rig, static: Path) -> Iterator[str]:
    """The address of the site over a rig's data."""
    rig.migrate()
    environment = {**rig.environment, "DJANGO_SETTINGS_MODULE": "webapp.settings"}
    environment["ASSAY_STATIC"] = str(static)
    port = free_port()
    web = subprocess.Popen(
        [sys.executable, "-m", "gunicorn", "--bind", f"127.0.0.1:{port}", "webapp.wsgi"],
        cwd=ROOT,
        env=environment | {"WEB_CONCURRENCY": "1"},
        stderr=subprocess.DEVNULL,
    )
    address = f"http://127.0.0.1:{port}"

    def answers() -> bool:
        try:
            with urlopen(f"{address}/healthz", timeout=2) as answer:
                return answer.status == 200
        except OSError:
            return False

    try:
        wait_for(answers, 60, "the site")
        yield address
    finally:
        web.terminate()
        web.wait(20)


def sign_in(page: Page, address: str, name: str) -> None:
    """By a link, as every reader does."""
    from webapp.readers import links

    page.goto(f"{address}/sign-in/{links.make_link(links.reader_named(name))}/")
    page.get_by_role("main").get_by_role("button", name="Sign in").click()
    page.get_by_role("button", name="Sign out").wait_for()


def test_a_new_reader_runs_the_real_benchmark_and_sees_the_chart(
    browser: Browser, tmp_path: Path, django_db_blocker, collected: Path
) -> None:
    rig = Rig(tmp_path, lease=30)
    with django_db_blocker.unblock(), rig.connected(), served(rig, collected) as address:
        try:
            rig.recorder()
            rig.beat()
            rig.bench()
            watch(browser, address)
        finally:
            rig.stop()


def watch(browser: Browser, address: str) -> None:
    context = browser.new_context(viewport=DESKTOP)
    page = context.new_page()
    asked: list[str] = []
    errors: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.on("console", lambda said: errors.append(said.text) if said.type == "error" else None)
    sign_in(page, address, "ada")

    page.goto(f"{address}/methods/sparse_attention/run/latency/")
    expect(page.get_by_role("radio", name="quick")).to_be_checked()
    # As many processes as a verdict needs, and less to do in each than the quick preset: without
    # the peers that each would import transformers for.
    page.get_by_text("Parameters and seed").click()
    small = {"lengths": "64, 128", "d_head": "16", "backward_up_to": "0", "linear_peers_up_to": "0"}
    for name, value in {**small, "processes": "5", "max_warm_up_s": "0"}.items():
        page.locator(f'[name="set-{name}"]').fill(value)
    page.get_by_role("button", name="Run", exact=True).click()
    page.wait_for_url("**/runs/*/")
    page.evaluate("window.first = true")

    # Watched, never reloaded: the page itself follows the run to its end.
    standing = page.locator(".standing [role=status]")
    expect(standing).to_contain_text("Running on", timeout=60_000)
    expect(page.locator(".live progress[value]")).to_be_visible(timeout=60_000)
    expect(standing).to_contain_text("Succeeded in", timeout=BENCHMARK_SECONDS * 1000)
    assert page.evaluate("window.first") is True
    expect(page.locator("svg.assay-chart").first).to_be_visible()
    assert "passed" in page.locator("table.checks").inner_text()
    rows = page.locator("table.points").first.inner_text()
    assert any(word in rows for word in ("faster", "slower", "no difference shown"))

    # The end of asking: nothing more is polled.
    polled = sum("/live?" in url for url in asked)
    assert polled
    time.sleep(3)
    assert sum("/live?" in url for url in asked) == polled
    assert {urlsplit(url).netloc for url in asked} == {urlsplit(address).netloc}
    assert not errors
    page.set_viewport_size(PHONE)
    assert page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]
    context.close()


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
        second, third = scenes.measured(reader, 1.3), scenes.measured(reader, 1.01)
        other = scenes.measured(reader, 0.1, "NVIDIA H200")
        pages = {name: f"/runs/{run.pk}/" for name, run in made.items()}
        pages |= {
            "list": "/runs/",
            "no run fits": "/runs/?method=nothing",
            "form": "/methods/sparse_attention/run/latency/",
            "compare": f"/compare?runs={made['succeeded'].pk},{second.pk},{third.pk}",
            "compare-ratios": f"/compare?runs={made['succeeded'].pk},{other.pk}",
            "compare-nothing": "/compare",
            "workers": "/workers/",
            "tokens": "/account/tokens/",
            "api": "/api/docs",
        }
        yield address, pages, links.make_link(reader)
        rig.stop()


@pytest.fixture(scope="module")
def session(browser: Browser, still: tuple[str, dict[str, str], str]) -> dict[str, object]:
    """What a browser keeps of a signed-in reader."""
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
    for name, last in (("compare", "against A"), ("succeeded", "faster")):
        page.goto(address + pages[name])
        for details in page.locator("main details").all():
            details.evaluate("node => node.open = true")
        assert set(page.locator(".wide").evaluate_all(hidden)) == {0}
        assert page.locator("main").get_by_text(last).last.is_visible()
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
    polls.clear()
    time.sleep(3)
    assert polls == []
    with page.expect_request("**/live?*", timeout=10_000):
        page.evaluate(
            "document.hidden = false; document.dispatchEvent(new Event('visibilitychange'))"
        )
    context.set_offline(True)
    expect(page.locator("[data-lost]")).to_be_visible(timeout=20_000)
    context.set_offline(False)
    expect(page.locator("[data-lost]")).to_be_hidden(timeout=20_000)
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
