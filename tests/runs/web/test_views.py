"""The pages of runs: every state in words, what is watched, who may see and press what."""

from __future__ import annotations

import csv
import io
import json
import re
from types import SimpleNamespace
from typing import get_args
from urllib.parse import unquote

import pytest
from django.contrib.auth.models import User
from django.template.loader import render_to_string
from django.test import Client
from django.urls import reverse

from methods import protocol
from tests.runs import scenes
from tests.runs.saying import ENVIRONMENT, live_worker, queued, say
from webapp.runs import record, submit
from webapp.runs.models import Environment, Run, RunFailure, State

pytestmark = pytest.mark.django_db


@pytest.fixture
def reader() -> User:
    return User.objects.create_user("ada")


@pytest.fixture
def signed_in(client: Client, reader: User) -> Client:
    client.force_login(reader)
    return client


def page(client: Client, run: Run) -> str:
    response = client.get(reverse("runs:run", args=[run.pk]))
    assert response.status_code == 200
    return response.content.decode()


TOLD = {
    "succeeded": ["Succeeded in 41 s", "2 correctness checks passed"],
    "running": ["Running on worker one", "42 %", "about 25 s left", "&lt;b&gt;variants&lt;/b&gt;"],
    "queued": ["Queued, ", "before it"],
    "waiting": ["no connected worker can run this", "It needs a GPU worker"],
    "again": ["Queued again", "The run keeps its place"],
    "dispatched": ["Sent to a worker"],
    "cancelling": ["Being cancelled"],
    "timed_out": ["Timed out", "limit of 5 min", "the limit of 300 s was reached"],
    "cancelled": ["Cancelled before it started"],
    "worker_lost": ["the worker was lost, twice", "No device time was charged"],
    "killed": ["it was killed"],
    "input": ["the worker refused the parameters", "61.0 GiB are needed"],
    "check": ["a correctness check missed its bound", "missed", "bf16", "&lt;="],
    "memory": ["it ran out of memory", "Choose the quick run"],
    "error": ["the benchmark failed", "&lt;script&gt;alert(1)"],
}


def test_every_state_and_failure_has_words_of_its_own(signed_in: Client, reader: User) -> None:
    made = scenes.every_state(reader)
    assert set(made) == set(TOLD)
    assert {run.state for run in made.values()} == set(State.values)
    assert {run.failure for run in made.values()} - {""} == set(RunFailure.values)
    titles = set()
    for name, run in made.items():
        html = page(signed_in, run)
        for words in TOLD[name]:
            assert words in html, f"{name}: {words!r} is not told"
        titles.add(re.search(r"<title>(.*?)</title>", html)[1])
        assert "<script>alert" not in html
        assert ("runs:live" in html or "/live?seen=" in html) == (not run.ended)
    assert len(titles) == len(made)


def test_a_result_shows_charts_tables_checks_and_the_command(client: Client) -> None:
    run = scenes.measured()
    html = page(client, run)
    assert html.count('<svg class="assay-chart"') == 1, "a quantity is drawn once"
    assert "<style" not in html
    for words in ("▲ faster", "▼ slower", "= no difference shown", "variation", "5.01×"):
        assert words in html
    assert "Output, dQ, dK, dV against the float64 definition" in html
    assert "python -m methods run \\\n  sparse_attention.latency" in html


@pytest.mark.parametrize(
    ("verdict", "sign"), list(zip(get_args(protocol.Verdict), "▲▼▲▼=?", strict=True))
)
def test_a_verdict_has_its_sign(verdict: str, sign: str) -> None:
    ratio = SimpleNamespace(value=1.0, low=1.0, high=1.0, verdict=verdict)
    point = SimpleNamespace(x=1, estimate=1.0, low=1.0, high=1.0, samples=(), flags=(), ratio=ratio)
    series = SimpleNamespace(compared_with="Dense", rows=[(point, None)])
    html = " ".join(render_to_string("runs/points.html", {"series": series}).split())
    assert f"{sign} {verdict}" in html


def test_who_deleted_their_account_is_named_no_more(client: Client) -> None:
    reader = User.objects.create_user("margarete")
    run = scenes.measured(reader)
    assert "margarete" in page(client, run)
    reader.delete()
    assert "margarete" not in page(client, run)


@pytest.mark.parametrize(
    ("machine", "after"),
    [
        ({"name": "of an older version"}, {"clock": 2400}),
        ({**ENVIRONMENT.model_dump(mode="json"), "cores": "two", "before": [1]}, {"load": "high"}),
        ({**ENVIRONMENT.model_dump(mode="json"), "versions": ["torch"], "gpu": 1}, [1.5]),
        (["of a list"], ["load"]),
        ("words", "words"),
    ],
)
def test_what_another_version_stored_of_a_machine_is_a_page(
    client: Client, machine: object, after: object
) -> None:
    run = scenes.measured()
    Environment.objects.filter(run=run).update(data=machine)
    Run.objects.filter(pk=run.pk).update(result={**run.result, "after": after})
    html = page(client, run)
    assert run.hardware in html
    assert '<svg class="assay-chart"' in html


def test_hostile_labels_stay_words(client: Client) -> None:
    run = scenes.measured()
    row = run.series.get()
    row.data["title"] = "<script>alert(1)</script>"
    row.data["variants"][0]["label"] = "</text><script>alert(2)</script>"
    row.save()
    html = page(client, run)
    assert "<script>alert" not in html
    assert "&lt;script&gt;" in html


class TestWatching:
    """Answers to a page that polls."""

    def look(self, client: Client, run: Run, seen: str):
        return client.get(
            reverse("runs:live", args=[run.pk]), {"seen": seen}, headers={"HX-Request": "true"}
        )

    def seen(self, html: str) -> str:
        return re.search(r"live\?seen=([^\"]*)\"", html)[1]

    def test_nothing_new_is_answered_with_nothing(self, client: Client) -> None:
        run = scenes.under_way()
        response = self.look(client, run, self.seen(page(client, run)))
        assert (response.status_code, response.content) == (204, b"")

    def test_news_come_once_and_escaped(self, client: Client) -> None:
        run = scenes.under_way()
        seen = self.seen(page(client, run))
        text = "step 3 <i>done</i>\n"
        record.store_event(say(run, 3, protocol.Log(offset=38, text=text)))
        html = self.look(client, run, seen).content.decode()
        assert "step 3 &lt;i&gt;done&lt;/i&gt;" in html
        assert "warming up" not in html  # the page has that already
        assert self.look(client, run, self.seen(html)).status_code == 204

    def test_the_end_brings_the_whole_page_and_stops_the_asking(self, client: Client) -> None:
        run = scenes.under_way()
        seen = self.seen(page(client, run))
        record.store_event(say(run, 4, scenes.latency()))
        record.store_event(
            say(run, 5, protocol.Result(duration=1.0, checks=0, series=("forward",)))
        )
        response = self.look(client, run, seen)
        assert response.status_code == 286
        assert response["HX-Retarget"] == "#run"
        html = response.content.decode()
        assert "assay-chart" in html
        assert "hx-get" not in html

    def test_a_place_in_the_queue_that_changes_is_told(self, client: Client) -> None:
        live_worker("one")
        first, second = queued(), queued()
        seen = self.seen(page(client, second))
        assert self.look(client, second, seen).status_code == 204
        submit.cancel(first)
        html = self.look(client, second, seen).content.decode()
        assert "next in line" in html

    def test_a_stranger_watches_no_run_that_is_not_public(
        self, client: Client, reader: User
    ) -> None:
        run = scenes.under_way(reader)
        Run.objects.filter(pk=run.pk).update(public=False)
        assert self.look(client, run, "").status_code == 404
        client.force_login(reader)
        assert self.look(client, run, "").status_code == 200

    @pytest.mark.parametrize("seen", ["", "running", "a.b.c.d.e", "x" * 5000])
    def test_nonsense_is_answered_with_the_whole_page(self, client: Client, seen: str) -> None:
        response = self.look(client, scenes.under_way(), seen)
        assert response.status_code == 200
        assert response["HX-Retarget"] == "#run"

    def test_without_htmx_the_address_leads_to_the_page(self, client: Client) -> None:
        run = scenes.under_way()
        response = client.get(reverse("runs:live", args=[run.pk]))
        assert response["Location"] == reverse("runs:run", args=[run.pk])

    def test_a_poll_asks_the_database_little(self, client: Client, django_assert_max_num_queries):
        run = scenes.under_way()
        seen = self.seen(page(client, run))
        with django_assert_max_num_queries(3):
            self.look(client, run, seen)


class TestPressing:
    """Cancel and Run again."""

    def test_the_reader_cancels(self, signed_in: Client, reader: User) -> None:
        run = queued(**scenes.fields(reader))
        response = signed_in.post(reverse("runs:cancel", args=[run.pk]))
        assert response["Location"] == reverse("runs:run", args=[run.pk])
        run.refresh_from_db()
        assert run.state == State.CANCELLED

    def test_nobody_else_does(self, client: Client, reader: User) -> None:
        run = queued(**scenes.fields(reader))
        address = reverse("runs:cancel", args=[run.pk])
        assert client.post(address).status_code == 302  # to the sign-in
        client.force_login(User.objects.create_user("eve"))
        assert client.post(address).status_code == 403
        run.refresh_from_db()
        assert run.state == State.QUEUED
        assert "Cancel</button>" not in page(client, run)

    def test_again_asks_for_the_same(self, signed_in: Client, reader: User) -> None:
        old = scenes.measured(reader, seed=7)
        [address] = re.findall(r'href="([^"]+[?]like=[^"]+)"', page(signed_in, old))
        form = signed_in.get(address).context["form"]
        asked = {name: form[name].value() or "" for name in form.fields}
        response = signed_in.post(address, asked)
        new = Run.objects.get(state=State.QUEUED)
        assert response["Location"] == reverse("runs:run", args=[new.pk])
        assert (new.params, new.seed, new.device) == (old.params, 7, old.device)

    def test_a_form_of_another_site_presses_nothing(self, reader: User) -> None:
        strict = Client(enforce_csrf_checks=True)
        strict.force_login(reader)
        run = queued(**scenes.fields(reader))
        assert strict.post(reverse("runs:cancel", args=[run.pk])).status_code == 403


class TestList:
    def ids(self, client: Client, **query: str) -> set[str]:
        html = client.get(reverse("runs:runs"), query).content.decode()
        return set(re.findall(r'href="/runs/([0-9a-f-]{36})/"', html))

    def test_it_narrows(self, signed_in: Client, reader: User) -> None:
        made = scenes.every_state(reader)
        other = scenes.measured()
        everything = {str(run.pk) for run in made.values()} | {str(other.pk)}
        assert self.ids(signed_in) == everything
        assert self.ids(signed_in, mine="1") == everything - {str(other.pk)}
        assert self.ids(signed_in, device="gpu") == {str(made["waiting"].pk)}
        assert self.ids(signed_in, state="timed_out") == {str(made["timed_out"].pk)}
        succeeded = {str(made["succeeded"].pk), str(other.pk)}
        assert self.ids(signed_in, state="succeeded") == succeeded
        assert self.ids(signed_in, method="nothing") == set()
        assert self.ids(signed_in, state="nonsense", device="tpu") == everything

    def test_what_is_not_public_is_its_readers(self, client: Client, reader: User) -> None:
        run = scenes.measured(reader)
        Run.objects.filter(pk=run.pk).update(public=False)
        assert self.ids(client) == set()
        assert client.get(reverse("runs:run", args=[run.pk])).status_code == 404
        assert client.get(reverse("runs:json", args=[run.pk])).status_code == 404
        client.force_login(reader)
        assert self.ids(client) == {str(run.pk)}

    def test_empty_and_narrowed_to_nothing_say_so(self, client: Client) -> None:
        html = client.get(reverse("runs:runs")).content.decode()
        assert "Nothing has been measured here yet" in html
        queued()
        html = client.get(reverse("runs:runs"), {"device": "gpu"}).content.decode()
        assert "No matching runs" in html

    def test_it_turns_pages(self, client: Client) -> None:
        for _ in range(45):
            queued()
        assert len(self.ids(client)) == 40
        html = client.get(reverse("runs:runs")).content.decode()
        [after] = re.findall(r'rel="next" href="[?]after=([^"]+)"', html)
        second = self.ids(client, after=unquote(after))
        assert len(second) == 5
        assert not second & self.ids(client)
        assert len(self.ids(client, after="nonsense_x")) == 40
        before_all_days = f"0001-01-01T00:00:00+14:00_{Run.objects.first().pk}"
        assert len(self.ids(client, after=before_all_days)) == 40

    def test_the_number_of_queries_does_not_grow(
        self, client: Client, django_assert_max_num_queries
    ) -> None:
        for _ in range(12):
            queued()
        with django_assert_max_num_queries(6):
            self.ids(client)


class TestFiles:
    def test_json_holds_everything(self, client: Client) -> None:
        run = scenes.measured()
        response = client.get(reverse("runs:json", args=[run.pk]))
        data = json.loads(response.content)
        assert response["X-Content-Type-Options"] == "nosniff"
        assert data["state"] == "succeeded"
        assert data["series"][0]["points"][0]["samples"]
        assert data["environment"]["versions"] == {"torch": "2.13.0"}
        assert len(data["checks"]) == 2

    def test_csv_holds_every_point(self, client: Client) -> None:
        run = scenes.measured(hardware="=cmd()")
        text = client.get(reverse("runs:csv", args=[run.pk])).content.decode()
        rows = list(csv.DictReader(io.StringIO(text)))
        assert len(rows) == 12
        best = next(r for r in rows if r["variant"] == "adaptive" and r["x"] == "8192.0")
        assert best["verdict"] == "faster"
        assert best["hardware"] == "'=cmd()"  # no formula for a spreadsheet

    def test_csv_holds_the_estimate_that_the_interval_is_of(self, client: Client) -> None:
        """It held the samples' median beside the interval of the mean over processes."""
        run = scenes.measured()
        row = run.series.get()
        row.data["points"][0] |= {"value": 41.5, "low": 41.0, "high": 42.0}
        row.save()
        text = client.get(reverse("runs:csv", args=[run.pk])).content.decode()
        line = next(csv.DictReader(io.StringIO(text)))
        assert [line[name] for name in ("estimate", "low", "high")] == ["41.5", "41.0", "42.0"]
        assert float(line["q1"]) <= float(line["median"]) <= float(line["q3"])
        assert line["median"] != "41.5"

    def test_csv_holds_no_formula(self, client: Client) -> None:
        run = scenes.measured()
        row = run.series.get()
        row.data["x"] |= {"label": "=x()", "unit": "@x", "scale": "category"}
        row.data["y"]["unit"] = "+y"
        for point in row.data["points"]:
            point["x"] = f"-{point['x']}"
        row.save()
        text = client.get(reverse("runs:csv", args=[run.pk])).content.decode()
        line = next(csv.DictReader(io.StringIO(text)))
        assert [line[name] for name in ("x_label", "x_unit", "unit")] == ["'=x()", "'@x", "'+y"]
        assert line["x"].startswith("'-")

    def test_csv_of_nothing_measured_has_its_header(self, client: Client) -> None:
        run = scenes.measured()
        measured = client.get(reverse("runs:csv", args=[run.pk])).content
        run.series.all().delete()
        nothing = client.get(reverse("runs:csv", args=[run.pk])).content
        assert nothing == measured[: measured.index(b"\r\n") + 2]

    def test_an_artefact_is_kept_and_never_shown(self, client: Client) -> None:
        run = scenes.measured()
        response = client.get(reverse("runs:artefact", args=[run.pk, "mask.svg"]))
        assert response.content == b"<svg><script/></svg>"
        assert response["Content-Disposition"] == 'attachment; filename="mask.svg"'
        assert response["X-Content-Type-Options"] == "nosniff"
        assert "sandbox" in response["Content-Security-Policy"]
        missing = reverse("runs:artefact", args=[run.pk, "other.svg"])
        assert client.get(missing).status_code == 404


def test_the_feeds_hold_results_and_their_headline(client: Client) -> None:
    run = scenes.measured()
    scenes.under_way()
    data = json.loads(client.get("/runs.json").content)
    assert [item["url"] for item in data["items"]] == [f"http://testserver/runs/{run.pk}/"]
    assert "at 4096 tokens" in data["items"][0]["title"]
    assert "times as fast as" in data["items"][0]["title"]
    for suffix in ("rss", "atom"):
        first = client.get(f"/runs.{suffix}")
        assert str(run.pk) in first.content.decode()
        again = client.get(f"/runs.{suffix}", headers={"If-None-Match": first["ETag"]})
        assert again.status_code == 304


def test_the_charts_have_a_stylesheet_of_their_own(client: Client) -> None:
    response = client.get("/charts.css")
    assert response["Content-Type"].startswith("text/css")
    assert b".assay-chart" in response.content
