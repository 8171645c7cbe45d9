"""The loop: a paper reports a number, a reader presses Run, the measured one stands beside it."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable

import pytest
from playwright.sync_api import Browser, expect

from tests import forking
from tests.browser.looks import DESKTOP
from tests.browser.test_first_minute import finish
from tests.servers.site import ROOT, Site

pytestmark = [pytest.mark.browser, pytest.mark.slow]
PAPER = """
import django; django.setup()
from tests import factories
from webapp.catalog import linking
from webapp.papers.models import Paper
from webapp.summaries.models import Claim
paper = factories.make_paper(
    1, arxiv_id="2603.00001", title="Grouped-head sparse attention for long contexts",
    abstract="We propose grouped-head sparse attention. Its sparse attention kernel is 3.1x faster "
    "than full attention at 4096 tokens.", announced_on=factories.DAY)
Claim.objects.create(
    summary=factories.summarise(paper), position=0, metric="kernel latency", value="3.1", unit="×",
    setting="4096 tokens", direction="higher", state=Claim.State.UNIT,
    quote="Its sparse attention kernel is 3.1x faster than full attention at 4096 tokens.")
linking.link(Paper.objects.filter(pk=paper.pk))
"""


def add_paper(site: Site) -> None:
    """A paper with a mechanism of ours and a number that a model read in it."""
    environment = os.environ | {
        "ASSAY_DATA": str(site.data),
        "DATABASE_URL": "",
        "DJANGO_SETTINGS_MODULE": "webapp.settings",
    }
    subprocess.run(forking.program(PAPER), cwd=ROOT, env=environment, check=True)


def test_run_answers_the_paper(browser: Browser, site: Callable[[str], Site]) -> None:
    sample = site("sample")
    add_paper(sample)
    context = browser.new_context(base_url=sample.address, viewport=DESKTOP)  # type: ignore[arg-type]
    page = context.new_page()
    page.goto(f"/sign-in/{sample.tokens.pop()}/")
    page.get_by_role("main").get_by_role("button", name="Sign in").click()
    page.goto("/papers/2603.00001/")
    testable = page.locator("#testable")
    testable.get_by_role("button", name="Run", exact=True).click()  # the one click that it takes

    page.wait_for_url("**/runs/*/")
    asked = page.locator(".asked")
    expect(asked).to_contain_text("Grouped-head sparse attention for long contexts reports 3.1×")
    expect(page.locator("table.pairs")).to_contain_text("4096")
    expect(page).to_have_title("Latency over length: Queued, no live worker can serve this · Assay")
    finish(sample, page.url.rstrip("/").rpartition("/")[2])
    expect(page.locator(".standing [role=status]")).to_contain_text("Succeeded in")
    expect(page).to_have_title("Latency over length: Succeeded in 41 s · Assay")
    expect(asked).to_contain_text("Here: ")
    expect(asked).to_contain_text("times as fast as")
    expect(asked).to_contain_text("Same mechanism, quantity and stage.")

    asked.get_by_role("link", name="Back to the paper").click()
    page.wait_for_url("**/papers/2603.00001/#testable")
    expect(testable).to_contain_text("The paper reports 3.1×; measured here:")
    expect(testable).to_contain_text("2.88×")
    expect(testable).to_contain_text("Quick run")
    expect(testable).to_contain_text("a processor, 2 cores")
    expect(testable.locator("svg.assay-chart")).to_have_count(1)
    if folder := os.environ.get("ASSAY_SHOTS"):
        for theme in ("light", "dark"):
            page.emulate_media(color_scheme=theme)  # type: ignore[arg-type]
            for width in (1280, 390):
                page.set_viewport_size({"width": width, "height": 900})
                page.screenshot(path=f"{folder}/paper-{width}-{theme}.png", full_page=True)
        for name, address in (("method", "/methods/sparse_attention/"), ("runs", "/runs/")):
            page.goto(address)
            page.screenshot(path=f"{folder}/{name}-390-dark.png", full_page=True)
            page.set_viewport_size({"width": 1280, "height": 900})
            page.screenshot(path=f"{folder}/{name}-1280-dark.png", full_page=True)
    context.close()
