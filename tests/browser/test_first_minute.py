"""A first minute: sample page, paper, its own claim, our measurement, Run, the ledger."""

from __future__ import annotations

import os
import re
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Browser, Locator, Page, expect

from tests import forking, scenes
from tests.browser.looks import DESKTOP, PHONE
from tests.browser.test_runs import served
from tests.runs.rig import Rig
from tests.servers.site import ROOT, Site

pytestmark = [pytest.mark.browser, pytest.mark.slow]

HARDWARE = "a processor, 2 cores"  # of the worker in tests/runs/saying.py


def finish(site: Site, run: str) -> None:
    """Record a worker's events of a finished run."""
    code = f"import django; django.setup(); from tests.runs import scenes; scenes.finish({run!r})"
    environment = os.environ | {
        "ASSAY_DATA": str(site.data),
        "DATABASE_URL": "",
        "DJANGO_SETTINGS_MODULE": "webapp.settings",
    }
    subprocess.run(forking.program(code), cwd=ROOT, env=environment, check=True)


def test_from_the_sample_page_to_a_measurement_of_ones_own(
    browser: Browser, site: Callable[[str], Site]
) -> None:
    sample = site("sample")
    context = browser.new_context(base_url=sample.address, viewport=DESKTOP)
    page = context.new_page()
    page.goto(f"/sign-in/{sample.tokens.pop()}/")
    page.get_by_role("main").get_by_role("button", name="Sign in").click()

    page.goto("/")
    card = page.locator("article.card", has_text="CTkvr").first
    card.get_by_role("heading").get_by_role("link").click()
    page.wait_for_url("**/papers/*/")
    expect(page.get_by_role("heading", name="Why it is here")).to_be_visible()

    # Without a model the numbers of the abstract are marked in place.
    expect(page.locator(".prose mark").first).to_be_visible()
    testable = page.locator("#testable")
    expect(testable).to_contain_text("Not implemented here. Closest:")
    testable.get_by_role("link", name="Grouped-head sparse attention").click()

    page.wait_for_url("**/methods/sparse_attention/")
    expect(page.locator("form.run-form")).to_have_count(1)
    page.locator("form.run-form").get_by_role("button", name="Run", exact=True).click()
    page.wait_for_url("**/runs/*/")
    standing = page.locator(".standing [role=status]")
    expect(standing).to_contain_text(re.compile("Waiting|Queued", re.IGNORECASE))
    finish(sample, page.url.rstrip("/").rpartition("/")[2])
    expect(standing).to_contain_text("Succeeded in")
    expect(page.locator("svg.assay-chart").first).to_be_visible()

    page.goto("/methods/sparse_attention/")
    ledger = page.locator("table.verdicts tr", has_text=HARDWARE)
    expect(ledger).to_contain_text(re.compile("reproduced|inconclusive|partly"))
    expect(page.get_by_role("region", name="History")).to_contain_text(HARDWARE)
    context.close()


def test_a_newcomer_comes_to_a_result_with_an_interval(
    browser: Browser, tmp_path: Path, django_db_blocker: pytest.FixtureRequest, collected: Path
) -> None:
    """Offline, from the first page, in six clicks at most, the last of which measures.

    A real worker runs the benchmark in as many processes as a verdict needs.
    """
    rig = Rig(tmp_path, lease=30)
    with django_db_blocker.unblock(), rig.connected(), served(rig, collected) as address:  # type: ignore[attr-defined]
        from webapp.readers import links

        scenes.sample()
        link = links.make_link(links.reader_named("newcomer"))
        try:
            rig.recorder()
            rig.beat()
            rig.bench()
            assert walk(browser, f"{address}/sign-in/{link}/", SMALL) <= 6
        finally:
            rig.stop()


# Less to do than in the preset that is offered: five processes, and none that imports
# transformers for a peer. Nobody need type them, so they count as no click.
SMALL = {
    "lengths": "64, 128", "d_head": "16", "backward_up_to": "0", "linear_peers_up_to": "0",
    "processes": "5", "seconds": "0", "max_warm_up_s": "0",
}  # fmt: skip


def walk(browser: Browser, first_page: str, typed: dict[str, str]) -> int:
    """From the first page to a result with an interval; how many clicks it took.

    `benchmarks.newcomer` takes its time, with nothing typed.
    """
    context = browser.new_context(viewport=DESKTOP)  # type: ignore[arg-type]
    page, clicks = context.new_page(), 0
    asked: list[str] = []
    errors: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.on("console", lambda said: errors.append(said.text) if said.type == "error" else None)

    def click(what: Locator) -> None:
        nonlocal clicks
        what.click()
        clicks += 1

    page.goto(first_page)
    click(page.get_by_role("main").get_by_role("button", name="Sign in"))
    page.get_by_role("button", name="Sign out").wait_for()
    if page.locator("article.card").count() == 0:
        click(page.get_by_role("link", name="Today"))
    card = page.locator("article.card", has_text="CTkvr").first
    click(card.get_by_role("heading").get_by_role("link"))
    page.wait_for_url("**/papers/*/")
    testable = page.locator("#testable")
    click(testable.get_by_role("link", name="Grouped-head sparse attention"))
    page.wait_for_url("**/methods/sparse_attention/")
    form = page.locator("form.run-form")
    expect(form.get_by_role("radio", name="quick")).to_be_checked()
    if typed:
        form.get_by_text("Parameters and seed").click()
    for name, value in typed.items():
        form.locator(f'[name="set-{name}"]').fill(value)
    click(form.get_by_role("button", name="Run", exact=True))
    page.wait_for_url("**/runs/*/")
    follow(page)

    # The end of asking: nothing more is polled.
    polled = sum("/live?" in url for url in asked)
    assert polled
    time.sleep(3)
    assert sum("/live?" in url for url in asked) == polled
    assert {urlsplit(url).netloc for url in asked} == {urlsplit(first_page).netloc}
    assert not errors
    page.set_viewport_size(PHONE)  # type: ignore[arg-type]
    assert page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]
    context.close()
    return clicks


# What a run's page has shown, however soon it shows something else.
WATCH = """() => {
    const shown = {
        running: () => document.querySelector(".standing [role=status]")
            .innerText.includes("Running on"),
        progress: () => document.querySelector(".live progress[value]")?.checkVisibility(),
    };
    window.seen = {};
    const look = () => Object.keys(shown).forEach((name) => window.seen[name] ||= shown[name]());
    look();
    new MutationObserver(look).observe(
        document, { attributes: true, characterData: true, childList: true, subtree: true });
}"""


def follow(page: Page) -> None:
    """The run's own page, to its end and what it says then."""
    page.evaluate(WATCH)
    # Watched, never reloaded: the page itself follows the run to its end.
    expect(page.locator(".standing [role=status]")).to_contain_text("Succeeded in")
    assert page.evaluate("window.seen") == {"running": True, "progress": True}
    expect(page.locator("svg.assay-chart").first).to_be_visible()
    assert "passed" in page.locator("table.checks").inner_text()

    # Headline and table of the chart say the same, with an interval.
    told = page.locator("main").inner_text()
    said = re.search(
        r"(?:is ([\d.]+) times as (?:fast|good) as|No difference in) .*?"
        r" \(95\s% interval ([\d.]+) to ([\d.]+)\)",
        told,
    )
    assert said, told
    low, high = float(said[2]), float(said[3])
    assert low < high
    assert said[1] is None or low < float(said[1]) < high
    table = page.locator("table.points").first.inner_text()
    for part in filter(None, said.groups()):
        assert part in table
