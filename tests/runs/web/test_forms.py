"""The form that asks for a run: generated, judged by the benchmark's own model, sent once."""

from __future__ import annotations

import re
import shlex

import pytest
from django.contrib.auth.models import User
from django.template import Context, Template
from django.test import Client, RequestFactory
from django.urls import reverse
from pytest_django import Settings

from methods import registry
from methods.commands.run import settings as command_settings
from tests.runs import scenes
from tests.runs.saying import live_worker, queued
from webapp.runs.models import Run
from webapp.runs.web.forms import PREFIX, RunForm, written
from webapp.runs.web.present import command

pytestmark = pytest.mark.django_db
ADDRESS = "/methods/sparse_attention/run/latency/"
CHOSEN = {"preset": "quick", "device": "cpu", "seed": "0", "key": "k1"}


def form(**data: str) -> RunForm:
    found = registry.find("sparse_attention.latency")
    return RunForm(*found, {**CHOSEN, **{PREFIX + name: value for name, value in data.items()}})


@pytest.fixture
def reader(client: Client) -> User:
    made = User.objects.create_user("ada")
    client.force_login(made)
    return made


def test_every_benchmark_of_every_method_has_a_form() -> None:
    for method in registry.all_methods():
        for benchmark in method.benchmarks:
            fields = RunForm(method, benchmark).fields
            public = {info.name for info in benchmark.parameters() if not info.local | info.model}
            assert {PREFIX + name for name in public} == {n for n in fields if PREFIX in n}
            empty = RunForm(method, benchmark, {**CHOSEN, "preset": "full"})
            assert empty.is_valid() or benchmark.devices == ("cuda",), empty.errors


def test_a_model_is_chosen_among_those_that_the_operator_allows(settings: Settings) -> None:
    found = registry.find("token_pruning.tradeoff")
    settings.RUN_MODELS = ["someone/a-model"]
    fields = RunForm(*found).fields
    assert PREFIX + "folder" not in fields
    assert dict(fields[PREFIX + "model"].choices) == {  # type: ignore[attr-defined]
        "": "as in the preset",
        "someone/a-model": "someone/a-model",
    }


def test_what_is_left_empty_is_the_presets() -> None:
    asked = form(batch="2", lengths="512, 1024", dtype="", flex="false")
    assert asked.is_valid()
    assert asked.request().params == {"batch": "2", "lengths": "512, 1024", "flex": "false"}


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("batch", "0", ["Allowed: integer from 1 to 64. You gave '0'."]),
        ("batch", "many", ["integer", "You gave 'many'"]),
        ("d_head", "50", ["multiple of 16"]),
        ("lengths", "1,2", ["64", "262144"]),
        ("lengths", "[1", ["You gave '[1'"]),
        ("dtype", "float8", ["not one of the available choices"]),
        ("max_warm_up_s", "nan", ["number from 0 to 60"]),
        ("threads", "9" * 500, ["You gave"]),
    ],
)
def test_a_problem_stands_at_its_field_with_bounds_and_what_was_given(
    name: str, value: str, words: list[str]
) -> None:
    asked = form(**{name: value})
    assert not asked.is_valid()
    assert list(asked.errors) == [PREFIX + name]
    for word in words:
        assert word in " ".join(asked.errors[PREFIX + name])
    assert asked.opened


@pytest.mark.parametrize(
    ("field", "value"),
    [("preset", "huge"), ("device", "tpu"), ("seed", "-1"), ("seed", "x"), ("key", "k" * 65)],
)
def test_the_forms_own_fields_are_judged_too(field: str, value: str) -> None:
    found = registry.find("sparse_attention.latency")
    assert field in RunForm(*found, {**CHOSEN, field: value}).errors


def test_a_run_is_asked_for_once_however_often_it_is_sent(client: Client, reader: User) -> None:
    first = client.post(ADDRESS, {**CHOSEN, "set-batch": "3"})
    second = client.post(ADDRESS, {**CHOSEN, "set-batch": "3"})
    run = Run.objects.get()
    assert first["Location"] == second["Location"] == reverse("runs:run", args=[run.pk])
    assert (run.params["batch"], run.reader, run.preset) == (3, reader, "quick")


def test_a_refused_form_keeps_what_was_written(client: Client, reader: User) -> None:
    response = client.post(ADDRESS, {**CHOSEN, "set-batch": "<b>99</b>", "set-blocks": "7"})
    assert response.status_code == 422
    html = response.content.decode()
    assert "Nothing was started" in html
    assert "&lt;b&gt;99&lt;/b&gt;" in html
    assert 'value="7"' in html
    assert not Run.objects.exists()


def test_limits_are_told_on_the_form(client: Client, reader: User, settings) -> None:
    settings.RUN_MINUTES_A_DAY = 6
    html = client.post(ADDRESS, {**CHOSEN, "preset": "full"}).content.decode()
    assert "This run takes about 30 min" in html
    settings.RUN_MINUTES_A_DAY = 600
    for _ in range(4):
        queued(reader)
    html = client.post(ADDRESS, CHOSEN).content.decode()
    assert "4 runs waiting or running" in html


def test_visitors_are_asked_to_sign_in(client: Client) -> None:
    html = client.get(ADDRESS).content.decode()
    assert "Sign in" in html
    assert '<button class="first">Run</button>' not in html
    wanted = f"{reverse('readers:sign-in')}?next={ADDRESS}"
    assert client.post(ADDRESS, CHOSEN)["Location"] == wanted
    assert not Run.objects.exists()


def test_estimates_and_live_workers_are_told(client: Client, reader: User) -> None:
    scenes.measured()
    live_worker("one")
    html = client.get(ADDRESS).content.decode()
    assert "about 41 s on a CPU" in html
    assert "CPU: 1 worker is connected" in html
    assert "GPU: no worker is connected, so the run would wait" in html


def test_change_and_run_begins_with_the_other_runs_settings(client: Client, reader: User) -> None:
    run = scenes.measured(seed=5)
    html = client.get(ADDRESS, {"like": str(run.pk)}).content.decode()
    assert re.search(r'name="set-batch" value="2"', html)
    assert re.search(r'name="seed" value="5"', html)
    assert client.get(ADDRESS, {"like": "nonsense"}).status_code == 200


@pytest.mark.parametrize("address", ["/methods/nothing/run/latency/", ADDRESS.replace("lat", "x")])
def test_what_is_not_there_is_not_found(client: Client, address: str) -> None:
    assert client.get(address).status_code == 404


def test_other_rooms_show_the_form_by_a_tag(reader: User) -> None:
    request = RequestFactory().get("/papers/2603.00001/")
    request.user = reader
    text = "{% load runs %}{% run_form 'sparse_attention' 'latency' %}"
    html = Template(text).render(Context({"request": request, "csrf_token": "t" * 32}))
    assert f'action="{ADDRESS}"' in html
    assert "csrfmiddlewaretoken" in html


def test_the_command_asks_for_exactly_the_same_run() -> None:
    _method, benchmark = registry.find("sparse_attention.latency")
    run = scenes.measured(seed=9)
    words = shlex.split(command(run).replace("\\\n", " "))
    assert words[:5] == ["python", "-m", "methods", "run", "sparse_attention.latency"]
    pairs = [words[i + 1] for i, word in enumerate(words) if word == "--set"]
    preset = words[words.index("--preset") + 1]
    resolved = benchmark.resolve(preset, command_settings(pairs))
    assert resolved.model_dump(mode="json") == run.params
    assert words[words.index("--seed") + 1] == "9"


@pytest.mark.parametrize(
    ("value", "text"),
    [((1, 2), "1,2"), (True, "true"), (0.5, "0.5"), ("a b", "a b"), (("a,b", ""), '["a,b", ""]')],
)
def test_a_value_is_written_as_the_command_line_reads_it(value: object, text: str) -> None:
    assert written(value) == text
