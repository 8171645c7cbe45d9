"""The whole way of a summary in a browser: a model is connected, sample digest, claims, card, feed.

Everything is real but arXiv and the model, which are local servers: `manage.py up` with its
workers, a reader who signs in by the link and presses a button, a page that looks again by itself.
"""

from __future__ import annotations

from pathlib import Path

import feedparser
import httpx2
import pytest
from playwright.sync_api import Browser, Page, expect
from pytest_httpserver import HTTPServer

from tests.browser.looks import AXE, DESKTOP, PAIRS, faults
from tests.processes import PATIENCE, up, wait_for
from tests.servers.openai import OpenAIServer

pytestmark = [pytest.mark.browser, pytest.mark.slow]

PAPER = "2512.15306"
FILLER = "Training large models takes many machines and much memory. " * 12
HTML = f"""<article><section class="ltx_section"><h2>1 Introduction</h2><p>{FILLER}</p></section>
<section class="ltx_section"><h2>2 Results</h2><p>Replacing the library by the copy engine raises
throughput by 81% on four cards, and utilisation reaches 70 percent.</p></section></article>"""


def test_from_the_digest_to_the_claims_and_the_feed(
    browser: Browser, httpserver: HTTPServer, tmp_path: Path
) -> None:
    httpserver.expect_request(f"/html/{PAPER}v1").respond_with_data(HTML, content_type="text/html")
    with OpenAIServer(delay=1.0) as model:
        settings = {
            "ASSAY_ARXIV_SITE_URL": httpserver.url_for("").rstrip("/"),
            "ASSAY_ARXIV_SECONDS": "0",
        }
        with up(tmp_path, **settings) as house:
            link = house.said(r"One-time sign-in link +(\S+)")[1]
            house.said(r"failed\. .* cannot be reached")  # so the sample day is there
            context = browser.new_context(base_url=house.address, viewport=DESKTOP, bypass_csp=True)  # type: ignore[arg-type]
            context.add_init_script(path=AXE)
            page = context.new_page()
            page.goto(link)
            page.get_by_role("main").get_by_role("button", name="Sign in").click()
            _connect(page, model.url)
            page.goto(f"/papers/{PAPER}/")
            expect(page.get_by_text("No summary of this paper has been requested")).to_be_visible()
            model.scenario = "wrong_types"
            page.get_by_role("button", name="Summarise").click()
            # Nothing is reloaded from here on: the page looks again by itself.
            expect(page.get_by_text("The summary failed")).to_be_visible()
            page.reload()
            model.scenario = "good"
            page.get_by_role("button", name="Try again").click()
            expect(page.get_by_text("Written by small")).to_be_visible()
            expect(page.get_by_text("from the full text (HTML) of version 1")).to_be_visible()
            expect(page.get_by_text("Each number was found in the paper")).to_be_visible()
            page.reload()
            claims = page.locator(".claim")
            assert claims.count() >= 1
            assert page.locator(".claim.unverified").count() == 0
            claims.first.locator("summary").first.click()
            expect(claims.first.locator("blockquote")).to_be_visible()
            feed = wait_for(lambda: _summarised(house.address), "the gist in the feed")
            assert feed["summary"].startswith("The paper reports: ")
            assert "<h3>Results</h3>" in feed["content"][0]["value"]
            page.goto("/")
            card = page.locator(f'[id="p-{PAPER}"]')
            expect(card.locator(".did")).to_contain_text("The paper reports")
            context.close()
            assert "sk-secret" not in "".join(
                one.read_text() for one in (tmp_path / "log").iterdir()
            )


def _connect(page: Page, address: str) -> None:
    """First steps open; what is kept there is used by every process that runs already."""
    page.get_by_text("A model for summaries").click()
    assert faults(page, PAIRS[0]) == []
    for tried in ("http://127.0.0.1:9/v1", address):
        page.get_by_label("Address").fill(tried)
        page.get_by_label("Model", exact=True).fill("small")
        page.get_by_label("API key").fill("sk-secret")
        page.get_by_role("button", name="Test and save").first.click()
        if tried != address:
            expect(page.get_by_role("alert")).to_contain_text("Nothing was saved. It does not work")
            assert faults(page, PAIRS[1]) == []
    expect(page.get_by_text("The server enforces a JSON schema.")).to_be_visible()
    expect(page.get_by_text("It works.")).to_be_visible()
    expect(page.get_by_text(f"Connected: small at {address}.")).to_have_count(1)
    assert page.url.endswith("/first-steps/")
    assert "sk-secret" not in page.content()


def _summarised(address: str) -> feedparser.FeedParserDict | None:
    """The paper's entry in the site's feed, once it says what the model said."""
    feed = feedparser.parse(httpx2.get(f"{address}digest.atom", timeout=PATIENCE).content)
    assert not feed.bozo
    entry = next(e for e in feed.entries if PAPER in e.id)
    return entry if entry.summary.startswith("The paper reports") else None
