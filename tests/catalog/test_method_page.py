"""A method's page and feeds: in a reader's order, at a cost that no number of runs changes."""

from __future__ import annotations

import html
import json
import re
from datetime import timedelta
from io import StringIO
from xml.etree import ElementTree

import pytest
from django.contrib.auth.models import User
from django.core.management import call_command
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from methods import registry
from tests.factories import make_paper
from tests.runs import scenes
from webapp.catalog import linking
from webapp.catalog.models import MethodLink
from webapp.catalog.queries import Carried, papers_of
from webapp.catalog.templatetags.catalog import counted
from webapp.catalog.verdicts import Figure
from webapp.papers.models import Paper
from webapp.runs.models import Run, StandingMeasurement, State

pytestmark = pytest.mark.django_db
SLUGS = ("concept_lm", "seps", "sparse_attention", "token_pruning")
MOST_QUERIES = 12


def publish(slug: str) -> None:
    """The committed results of a method."""
    call_command("import_results", f"benchmarks/results/{slug}", stdout=StringIO())


@pytest.fixture
def published() -> None:
    """The committed results of sparse attention, and a paper about it."""
    publish("sparse_attention")
    make_paper(1, title="Block sparse attention", abstract="We study sparse attention.",
               announced_on="2026-03-12")  # fmt: skip
    linking.link(Paper.objects.all())


def body(client: Client, address: str) -> str:
    response = client.get(address)
    assert response.status_code == 200
    return response.content.decode()


def queries(client: Client, address: str) -> int:
    with CaptureQueriesContext(connection) as asked:
        body(client, address)
    return len(asked)


def add_runs(number: int) -> None:
    """Runs that anyone may have asked for, with settings of their own: ended, and public."""
    now = timezone.now()
    Run.objects.bulk_create(
        Run(method="sparse_attention", benchmark="latency", preset="smoke", device="cpu",
            limit_seconds=60, state=State.SUCCEEDED, queued_at=now, started_at=now,
            finished_at=now + timedelta(seconds=at))
        for at in range(number)
    )  # fmt: skip


@pytest.mark.usefixtures("published")
def test_the_page_goes_from_what_it_is_to_how_to_run_it(client: Client) -> None:
    page = body(client, "/methods/sparse_attention/")
    order = ['class="lead"', 'class="mechanism"', 'id="claims"', 'id="measured"', 'id="papers"',
             'id="equations"', 'id="history"', 'id="run"', 'id="feeds"']  # fmt: skip
    places = [page.index(one) for one in order]
    assert places == sorted(places)
    assert page.count('class="assay-chart"') == 1


@pytest.mark.usefixtures("published")
def test_one_form_runs_the_benchmark_that_was_chosen(client: Client) -> None:
    client.force_login(User.objects.create_user("ada"))
    page = body(client, "/methods/sparse_attention/")
    assert re.findall(r'action="(/methods/\w+/run/\w+/)"', page) == [
        "/methods/sparse_attention/run/latency/"
    ]
    page = body(client, "/methods/sparse_attention/?benchmark=memory")
    assert 'action="/methods/sparse_attention/run/memory/"' in page
    assert body(client, "/methods/sparse_attention/?benchmark=nothing")


@pytest.mark.usefixtures("published")
@pytest.mark.parametrize("address", ["/methods/", "/methods/sparse_attention/"])
def test_a_page_asks_no_more_however_many_runs_there_are(client: Client, address: str) -> None:
    client.force_login(User.objects.create_user("ada"))
    body(client, address)
    few = queries(client, address)
    assert few <= MOST_QUERIES
    add_runs(300)
    assert queries(client, address) == few
    anonymous = Client()
    body(anonymous, address)
    assert queries(anonymous, address) == 1, "kept: only its stamp is asked for"


@pytest.mark.usefixtures("published")
def test_a_kept_page_is_left_when_links_or_measurements_change(client: Client) -> None:
    address = "/methods/sparse_attention/"
    assert "/papers/2603.00001/" in body(client, address)
    MethodLink.objects.update(confirmed=False)
    linking.note_change()
    assert "/papers/2603.00001/" not in body(client, address)
    StandingMeasurement.objects.all().delete()
    assert "Nothing has been measured" in body(client, address)


# What leaves a mechanism out, by the labels that a reader sees in a chart.
WITHOUT = re.compile(r"chance|random|no slimming|our kernel|all keys|mean nothing|local heads only|"
                     r"every patch|layers dropped|no middle layers", re.IGNORECASE)  # fmt: skip
HEADLINES = {
    "concept_lm": r"1\.71× smaller \(exact\) than the base, same cache buffers at 4096 tokens",
    "seps": "",
    "sparse_attention": r"8\.72× faster per call \([\d.–]+\) than Dense causal \(SDPA\) at 8192",
    "token_pruning": r"3\.69× better in right answers \([\d.–]+\) than chance at 8 tokens",
}
NO_GAIN = "No clear gain over its baseline and controls."


@pytest.mark.parametrize("slug", SLUGS)
@pytest.mark.parametrize("address", ["/methods/", "/methods/{slug}/"])
def test_a_headline_is_a_gain_that_its_controls_do_not_have(
    client: Client, slug: str, address: str
) -> None:
    publish(slug)
    page = body(client, address.format(slug=slug))
    text = html.unescape(" ".join(re.sub("<[^>]+>", " ", page).split()))
    if not HEADLINES[slug]:
        assert NO_GAIN in text
        assert 'class="measured"' not in page
        return
    assert NO_GAIN not in text
    assert re.search(HEADLINES[slug], text)
    run, ratio = re.findall(r'<a href="(/runs/[^"]+)"><b class="num">([\d.]+)×', page)[0]
    measured = client.get(f"{run}results.json").json()["series"]
    at = r"at ([\d.]+) \w+"
    x = float(re.findall(at, text[text.index(f"{ratio}×") :])[0])
    found = [
        series for series in measured
        if any(p["x"] == x and p["ratio"] and f"{p['ratio']['value']:.2f}" == ratio
               for p in series["points"])
        and f"· {series['title']}" in text
    ]  # fmt: skip
    assert found
    for series in found:
        labels = {one["name"]: one["label"] for one in series["variants"]}
        gains = {labels[p["variant"]]: p["ratio"] for p in series["points"]
                 if p["x"] == x and p["ratio"]}  # fmt: skip
        for label, gain in gains.items():
            if WITHOUT.search(label):
                assert gain["value"] < float(ratio) * 0.9, f"{label} has it as well"


@pytest.mark.parametrize("slug", SLUGS)
def test_what_a_method_must_beat_is_named_for_every_published_chart(slug: str) -> None:
    """Else a control that somebody adds to a chart would be taken for a rival."""
    publish(slug)
    method = registry.get(slug)
    for one in Carried(method).measurements:
        controls = method.benchmark(one.row.benchmark).controls
        plain = {v.name for v in one.series.variants if WITHOUT.search(v.label) and not v.ours}
        # Of a variant measured with the dense text the label begins otherwise.
        plain -= {"dense_alone", one.series.baseline}
        assert plain <= set(controls), f"{one.row.benchmark}: {plain}"


@pytest.mark.parametrize("slug", SLUGS)
def test_the_first_chart_is_the_headlines_or_what_verdicts_rest_on(
    client: Client, slug: str
) -> None:
    publish(slug)
    carried = Carried(registry.get(slug))
    if carried.best is None:
        judged = [one.measurement for one in carried.answers if one.measurement]
        assert carried.in_order[0] in judged
        assert carried.in_order[0].series.title in body(client, f"/methods/{slug}/")


@pytest.mark.parametrize("slug", [slug for slug in SLUGS if HEADLINES[slug]])
def test_headline_chart_and_limit_agree(client: Client, slug: str) -> None:
    publish(slug)
    best = Carried(registry.get(slug)).best
    assert best is not None
    assert Carried(registry.get(slug)).in_order[0].series == best.measurement.series
    series = best.measurement.series
    point = next(p for p in series.points if p.ratio and p.ratio.value == best.ratio)
    assert point.ratio
    assert point.ratio.low <= series.most(point)
    page = body(client, f"/methods/{slug}/")
    assert best.measurement.series.title.split(",")[0] in page[page.index('id="measured"') :]


@pytest.mark.usefixtures("published")
def test_a_count_is_credited_to_no_machine() -> None:
    standing = Carried(registry.get("sparse_attention")).measurements
    cache = next(one for one in standing if one.series.name == "kv_cache")
    assert "EPYC" not in cache.where
    assert "computed" in cache.where
    for name in ("forward", "peak"):
        assert "EPYC" in next(one for one in standing if one.series.name == name).where


def test_history_keeps_the_best_of_each_version_and_hardware() -> None:
    scenes.measured(preset="full", version=1, factor=2.0)
    scenes.measured(preset="full", version=2, factor=3.0)
    scenes.measured(preset="full", version=2, factor=4.0)
    scenes.measured(preset="full", version=2, hardware="NVIDIA H200")
    carried = Carried(registry.get(scenes.METHOD))
    assert len(carried.standing) == 3
    assert {(one.row.version, one.row.hardware) for one in carried.measurements} == {
        (2, scenes.ENVIRONMENT.hardware), (2, "NVIDIA H200")
    }  # fmt: skip


@pytest.mark.usefixtures("published")
def test_papers_about_a_method_are_a_feed_in_every_format(client: Client) -> None:
    address, title = "/methods/sparse_attention", "Block sparse attention"
    rss = client.get(f"{address}.rss")
    channel = ElementTree.fromstring(rss.content)[0]
    assert title in rss.content.decode()
    ids = [item.findtext("guid") for item in channel.iter("item")]
    assert ids
    assert len(set(ids)) == len(ids)
    atom = client.get(f"{address}.atom").content.decode()
    assert title in atom
    items = json.loads(client.get(f"{address}.json").content)["items"]
    assert [item["id"] for item in items] == ids
    again = client.get(f"{address}.rss", headers={"If-None-Match": rss["ETag"]})
    assert again.status_code == 304
    home = channel.findtext("link") or ""
    assert f'href="{address}.rss"' in body(client, home.removeprefix("http://testserver"))


@pytest.mark.usefixtures("published")
@pytest.mark.usefixtures("published")
def test_a_feed_follows_the_evidence_of_its_links(client: Client) -> None:
    link = MethodLink.objects.get()
    assert b"weighed anew" not in client.get("/methods/sparse_attention.rss").content
    link.evidence = [{"words": "weighed anew", "place": "title", "weight": 1.0}]
    link.save()
    assert b"weighed anew" in client.get("/methods/sparse_attention.rss").content


def test_papers_that_only_mention_a_method_are_not_listed() -> None:
    about, later = make_paper(1), make_paper(2)
    relation = MethodLink.Relation
    for paper, kind in ((about, relation.ABOUT), (later, relation.MENTIONS)):
        MethodLink.objects.create(paper=paper, method="seps", relation=kind, score=0.5)
    assert [link.paper for link in papers_of("seps")] == [about]


def test_a_quick_run_stands_on_the_method_page_with_who_ran_it(client: Client) -> None:
    run = scenes.measured(reader=User.objects.create_user("ada"), preset="quick")
    page = " ".join(body(client, "/methods/sparse_attention/").split())
    quick = page[page.index('id="quick"') : page.index('id="papers"')]
    assert f"/runs/{run.pk}/" in quick
    assert "times as fast as" in quick
    assert "Quick run" in quick
    assert "by ada" in quick


def test_a_count_of_several_lengths_is_shown_by_its_ends() -> None:
    assert counted(Figure(0.718, 0.646, 0.789)) == "0.646–0.789"
    assert counted(Figure(1.87, 1.87, 1.87)) == "1.87"


def test_nothing_of_an_unknown_method_is_there(client: Client) -> None:
    for address in ("x/", "x.rss"):
        assert client.get(f"/methods/{address}").status_code == 404


def test_the_table_beside_the_chart_says_what_its_numbers_are(
    client: Client, published: None
) -> None:
    """The number beside an interval of processes is their mean: it read "median"."""
    page = body(client, "/methods/sparse_attention/")
    table = re.search(r'<table class="points stack">.*?</table>', page, re.DOTALL)
    assert table
    text = re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", table[0]))
    assert "median" not in text
    assert "Time a call (ms)" in text
    assert "95 % interval" in text
    assert "Ours, adaptive window" in text
    assert "1024.0" not in text
    assert "geometric mean of 5 processes" in page


@pytest.mark.parametrize("suffix", ["rss", "atom", "json"])
def test_the_former_feed_of_measurements_leads_to_that_of_results(
    client: Client, suffix: str
) -> None:
    response = client.get(f"/methods/sparse_attention/measurements.{suffix}")
    assert response.status_code == 301
    assert client.get(response["Location"]).status_code == 200
