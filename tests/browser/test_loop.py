"""The loop: a paper reports a number, a reader presses Run, the measured one stands beside it."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect

from methods import registry
from tests import factories, forking
from tests.browser.looks import DESKTOP
from tests.browser.test_first_minute import finish
from tests.browser.test_runs import served
from tests.runs.rig import Rig
from tests.servers.site import ROOT, Site
from webapp.runs.models import Run

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
    state = "Queued, no connected worker can run this"
    expect(page).to_have_title(f"Latency over length: {state} · Assay")
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


# A paper for each method: its mechanism there, the number that it reports, and its words.
PAPERS = {
    "sparse_attention": (
        "2603.00001",
        "grouped_heads",
        "3.1x",
        "Grouped-head sparse attention for long contexts",
        "We split heads into windows and anchors. At 4096 tokens its kernel is 3.1x faster than "
        "full attention.",
    ),
    "token_pruning": (
        "2603.00002",
        "learnt_merger_and_heads",
        "1.6x",
        "Visual tokens that the question does not need",
        "We merge visual tokens and drop those that the question does not need. It answers 1.6x "
        "faster at equal accuracy.",
    ),
    "concept_lm": (
        "2603.00003",
        "online_concepts",
        "2.1x",
        "Decoding over concepts",
        "We compress the context into concepts while decoding. Decoding is 2.1x faster.",
    ),
    "seps": (
        "2603.00004",
        "patch_slimming",
        "23%",
        "Semantic patch slimming for retrieval",
        "We slim patches by dense captions. Recall improves by 23% over the baseline.",
    ),
}


def test_every_method_has_a_question_and_a_paper() -> None:
    assert {*PAPERS} == {
        method.slug for method in registry.all_methods() if method.question is not None
    }
    assert {*PAPERS} == {*registry.slugs()}


@pytest.fixture(scope="module")
def measuring(
    tmp_path_factory: pytest.TempPathFactory,
    django_db_blocker: pytest.FixtureRequest,
    collected: Path,
) -> Iterator[tuple[str, Callable[[], str]]]:
    """A site with a worker and a paper for each method: its address, and a new sign-in token."""
    rig = Rig(tmp_path_factory.mktemp("loop"), lease=30)
    small = "tests.browser.small_runs"
    with django_db_blocker.unblock(), rig.connected(), served(rig, collected, small) as address:  # type: ignore[attr-defined]
        from webapp.catalog import corrections
        from webapp.readers import links

        reader = links.reader_named("ada")
        for method, (arxiv_id, mechanism, _, title, abstract) in PAPERS.items():
            paper = factories.make_paper(
                1, arxiv_id=arxiv_id, title=title, abstract=abstract, announced_on=factories.DAY
            )
            corrections.correct(paper, method, reader, mechanism=mechanism)
        try:
            rig.recorder()
            rig.beat()
            rig.bench()
            yield address, lambda: links.make_link(reader)
        finally:
            rig.stop()


@pytest.mark.xdist_group("loop")
@pytest.mark.parametrize(
    ("method", "language", "other"),
    [
        ("sparse_attention", "en", "zh-CN"),
        ("token_pruning", "zh-CN", "en"),
        ("concept_lm", "en", "zh-CN"),
        ("seps", "zh-CN", "en"),
    ],
)
def test_a_worker_answers_the_paper(
    browser: Browser,
    measuring: tuple[str, Callable[[], str]],
    method: str,
    language: str,
    other: str,
) -> None:
    """From a paper to its run and back in one language; run and paper are read in the other too.

    The quick run measures what the method's question asks, and its control.
    """
    address, token = measuring
    question = registry.get(method).question
    assert question is not None
    arxiv_id, _, claimed, title, _ = PAPERS[method]

    def context(locale: str) -> BrowserContext:
        return browser.new_context(base_url=address, viewport=DESKTOP, locale=locale)  # type: ignore[arg-type]

    walk = context(language)
    page = walk.new_page()
    page.goto(f"/sign-in/{token()}/")
    page.get_by_role("main").get_by_role("button").click()
    page.goto(f"/papers/{arxiv_id}/")
    testable = page.locator("#testable")
    assert testable.locator("svg.assay-chart").count() == 0
    testable.locator(".acts button").click()  # Run: the one click that it takes
    page.wait_for_url("**/runs/*/")
    run = page.url
    expect(page.locator(".run > header .asked p").first).to_contain_text(claimed)
    expect(page.locator(".run .findings")).to_be_visible()
    series = Run.objects.get(method=method).series.get(name=question.series).parsed()
    asked = {question.control} if method == "seps" else {question.control, question.variant}
    assert asked <= {point.variant for point in series.points}  # seps: tests/methods/seps
    check_sentences(page, title, claimed)
    page.locator(".asked p").last.get_by_role("link").click()
    page.wait_for_url(f"**/papers/{arxiv_id}/#testable")
    check_figure(page)
    shoot(page, f"walk-{method}-paper")
    page.goto(run)
    shoot(page, f"walk-{method}-run")
    walk.close()

    read = context(other)
    page = read.new_page()
    page.goto(run)
    check_sentences(page, title, claimed)
    page.goto(f"/papers/{arxiv_id}/")
    check_figure(page)
    read.close()


def check_sentences(page: Page, title: str, claimed: str) -> None:
    """A run's page begins with the paper's claim, then our number, then why not to compare them."""
    claim, answer, comparison, _ = page.locator(".run > header .asked p").all_inner_texts()
    assert title in claim
    assert claimed in claim
    assert re.search(r"\d.*95\s%.*\d|No difference|未显示|没有", answer), answer
    assert comparison
    if page.locator("html").get_attribute("lang") == "en":
        assert comparison.startswith("Same mechanism")
    else:
        assert not re.search(r"[a-z]{3,} [a-z]{3,} [a-z]{3,}", answer.replace(title, ""))


def check_figure(page: Page) -> None:
    """A paper's page shows our figure with its interval and chart."""
    ours = page.locator("#testable div.ours")
    expect(ours.locator("svg.assay-chart")).to_have_count(1)
    expect(ours.locator(".measured b.num")).to_contain_text("×")
    assert "no difference shown (" not in ours.inner_text()


def shoot(page: Page, name: str) -> None:
    """Keep a picture of a page where somebody wants to look at it."""
    if folder := os.environ.get("ASSAY_SHOTS"):
        page.screenshot(path=f"{folder}/{name}.png", full_page=True)
