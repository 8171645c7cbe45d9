"""Wherever a paper is shown, a figure of ours stands with every field of the contract, or not."""

from __future__ import annotations

import html
import json
import re
from collections import deque
from collections.abc import Iterator
from io import StringIO
from typing import Any

import pytest
from django.core import signals
from django.core.management import call_command
from django.db import close_old_connections
from django.test import Client

from assay_common.quantities import number
from methods import registry
from tests import factories
from tests.catalog.test_comparable import LONGFORMER, OWN, RELATED
from tests.mail.conftest import receiving
from webapp.api.assistants import Assay
from webapp.catalog import chips, linking
from webapp.catalog.comparable import Comparison
from webapp.catalog.queries import Carried
from webapp.digests.build import build
from webapp.digests.profiles.validation import site_profile
from webapp.mail import deliver
from webapp.mail.models import Delivery
from webapp.papers.models import Paper
from webapp.papers.sample import load_sample

pytestmark = pytest.mark.django_db
# A method's own pages and runs are about our figures; everything else is about papers.
OURS = re.compile(r"^/(?:methods|runs|compare|workers|best|admin|account|ready|health|metrics)")
MAX_PAGES = 400
FIELDS = ("mechanism", "quantity", "relation", "stage", "comparator", "regime", "hardware")
FIELDS += ("ratio", "low", "high", "verdict", "doubts")


def site(client: Client) -> None:
    """The sample day and all results; a paper of a measured mechanism, and a related one."""
    call_command("import_results", stdout=StringIO())
    report = load_sample("arXiv cannot be reached")
    factories.make_paper(1, title="Block sparse attention", abstract=RELATED)
    own = factories.make_paper(2, arxiv_id=LONGFORMER, title="Longformer", abstract=OWN)
    factories.summarise(own).claims.create(
        position=0, metric="kernel latency", value="3.1", unit="×", setting="4096 tokens",
        quote=OWN, state="number and unit",
    )  # fmt: skip
    build(report.dates, [site_profile()])
    factories.make_listing("cs.LG")
    factories.make_digest(factories.make_profile("mine"), list(Paper.objects.order_by("-pk")[:2]))
    linking.link(Paper.objects.all())
    chips.refresh()


def addresses(client: Client) -> Iterator[tuple[str, str]]:
    """Every page, feed and file about papers that can be reached, with its text; then the API."""
    start = ["/", "/digest.rss", "/digest.atom", "/digest.json", "/search?q=attention"]
    start += ["/p/mine/", "/digest/2026-03-12/?profile=mine", "/search?q=has:measured"]
    papers = list(Paper.objects.values_list("arxiv_id", flat=True))
    start += [f"/papers/{paper}/" for paper in papers]
    start += [f"/api/papers/{paper}" for paper in papers]
    waiting, seen = deque(start), set(start)
    while waiting and len(seen) < MAX_PAGES:
        address = waiting.popleft()
        response = client.get(address, follow=True)
        if response.status_code != 200 or response.streaming:
            continue
        body = response.content.decode(errors="replace")
        yield address, body
        for link in map(html.unescape, re.findall(r'href="(/[^"#]*)', body)):
            if link not in seen and not OURS.match(link) and "/static/" not in link:
                seen.add(link)
                waiting.append(link)


def assistants_answers() -> Iterator[tuple[str, str]]:
    """The answers about papers of each reading tool for assistants.

    A request's end would close the connection that this test's transaction is on.
    """
    ends = (signals.request_started, signals.request_finished)
    for signal in ends:
        signal.disconnect(close_old_connections)
    try:
        yield from _asked(Assay(lambda: "", by_http=False))
    finally:
        for signal in ends:
            signal.connect(close_old_connections)


def _asked(tools: Assay) -> Iterator[tuple[str, str]]:
    yield "digest", tools.digest()
    yield "digest of mine", tools.digest("mine")
    yield "search", tools.search("has:measured")
    for paper in Paper.objects.values_list("arxiv_id", flat=True):
        yield f"paper {paper}", tools.paper(paper, tables=20)


def words(body: str) -> str:
    """The text of a page or feed, escaped HTML included, without drawings."""
    body = re.sub(r"<svg.*?</svg>", " ", body, flags=re.DOTALL)
    text = re.sub(r"<[^>]+>", " ", html.unescape(html.unescape(re.sub(r"<[^>]+>", " ", body))))
    return " ".join(text.split()).replace("( ", "(").replace(" )", ")")


def bare_figures(text: str, known: list[Comparison]) -> list[str]:
    """Each mention of a ratio of ours that is not followed by all that must stand beside it."""
    allowed: dict[str, list[str]] = {}
    for one in known:
        machine = re.sub(r"\((?:R|TM)\)| Processor\b", "", one.hardware)  # as pages write it
        where = f"at {one.regime}, {machine}"
        field = f"{one.gain} ({one.interval}) than {one.comparator} {where}"
        if one.word == "no difference shown":
            field = f"({one.interval}), no difference from {one.comparator} shown {where}"
        allowed.setdefault(f"{number(one.ratio, 3)}×", []).append(field)
    bare = []
    for figure, fields in allowed.items():
        for found in re.finditer(rf"(?<![\d.]){re.escape(figure)}", text):
            after = text[found.end() :].lstrip()
            if not any(after.startswith(field) for field in fields):
                bare.append(text[max(0, found.start() - 60) : found.end() + 90])
    return bare


def incomplete(answer: Any) -> Iterator[dict[str, Any]]:
    """Comparisons of a JSON answer that lack a field of the contract."""
    if isinstance(answer, dict):
        if "ratio" in answer and any(answer.get(f) in {None, ""} for f in FIELDS if f != "doubts"):
            yield answer
        for value in answer.values():
            yield from incomplete(value)
    elif isinstance(answer, list):
        for value in answer:
            yield from incomplete(value)


@pytest.mark.slow
def test_no_figure_of_ours_stands_without_its_fields(
    client: Client, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    site(client)
    known = list(Carried(registry.get("sparse_attention")).comparisons)
    compared = 0
    visited = []
    for address, body in addresses(client):
        visited.append(address)
        text = words(body)
        assert not bare_figures(text, known), address
        compared += sum(f"than {one.comparator} at {one.regime}," in text for one in known) > 0
        if address.startswith("/api/") or address.endswith(".json"):
            assert not list(incomplete(json.loads(body))), address
    assert len(visited) > 60
    assert compared >= 3, "page, digest and feed of the measured mechanism show its figure"
    answers = dict(assistants_answers())
    assert '"sparse_attention"' in answers[f"paper {LONGFORMER}"], "the method is named"
    for tool, answer in answers.items():
        assert not bare_figures(words(answer), known), tool
        assert not list(incomplete(json.loads(answer))), tool
    mails = mailed(settings, monkeypatch)
    assert mails
    for mail in mails:
        assert not bare_figures(words(mail), known)


def mailed(settings: Any, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The parts of the digest as a real server takes it."""
    reader = factories.make_reader("ada")
    reader.email = "ada@home.example"
    reader.save()
    profile = factories.make_profile("mailed", owner=reader)
    factories.make_digest(profile, list(Paper.objects.order_by("-pk")[:2]))
    before = factories.DAY.replace(day=factories.DAY.day - 1)
    Delivery.objects.create(
        reader=reader, profile=profile, frequency="daily", sent_until=before, looked_on=before
    )
    monkeypatch.setattr(deliver, "now", lambda: factories.moment(factories.DAY, 18, 0))
    with receiving() as (inbox, address):
        monkeypatch.setenv("ASSAY_SMTP_URL", address)
        monkeypatch.setenv("ASSAY_MAIL_FROM", "assay@site.example")
        settings.EMAIL_BACKEND = "webapp.mail.backend.EmailBackend"
        settings.BASE_URL = "https://site.example"
        deliver.deliver_due()
        return [
            part.get_content()
            for mail in inbox.mails
            for part in mail.walk()
            if part.get_content_maintype() == "text"
        ]


def test_the_walk_notices_a_bare_figure() -> None:
    call_command("import_results", stdout=StringIO())
    known = list(Carried(registry.get("sparse_attention")).comparisons)
    whole = known[0].text
    assert not bare_figures(whole, known)
    for left_out in (
        f"({known[0].interval}) ",
        f"than {known[0].comparator} ",
        f" at {known[0].regime}",
        known[0].hardware,
    ):
        assert bare_figures(whole.replace(left_out, ""), known), left_out
    field = dict.fromkeys(FIELDS, "x")
    assert not list(incomplete([field]))
    assert len(list(incomplete({"claims": [{"measured_here": field | {"stage": ""}}]}))) == 1
