"""A first minute: sample page, paper, its own claim, our measurement, Run, the ledger."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Callable

import pytest
from playwright.sync_api import Browser, expect

from tests import forking
from tests.browser.looks import DESKTOP
from tests.servers.site import ROOT, Site

pytestmark = [pytest.mark.browser, pytest.mark.slow]

HARDWARE = "a processor, 2 cores"  # of the worker in tests/runs/saying.py


def finish(site: Site, run: str) -> None:
    """What a worker tells of the run, recorded as events are."""
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
    card = page.locator("article.card", has_text="Grouped-head sparse attention").first
    card.get_by_role("heading").get_by_role("link").click()
    page.wait_for_url("**/papers/*/")
    expect(page.get_by_role("heading", name="Why it is in the digest")).to_be_visible()

    # Without a model the numbers of the abstract are marked in place.
    expect(page.locator(".prose mark").first).to_be_visible()
    related = page.locator(".paper-method")
    expect(related).to_contain_text("Assay carries a related method, not this one")
    related.get_by_role("link", name="Run", exact=True).click()

    page.wait_for_url("**/methods/sparse_attention/#run")
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
