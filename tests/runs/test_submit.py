"""Requests that readers may make."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.contrib.auth.models import User
from django.utils import timezone
from pydantic import ValidationError
from pytest_django import Settings

from methods.errors import ParameterError, UnknownNameError
from tests.runs import saying
from tests.runs.asking import request
from webapp.runs import broker, submit
from webapp.runs.models import Run, State
from webapp.runs.submit import QuotaError, RequestError, seconds_left

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _no_broker(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(broker, "cancel", lambda *_: None)


@pytest.fixture
def reader() -> User:
    return User.objects.create_user("reader")


@pytest.mark.parametrize("name", ["folder", "model"])
@pytest.mark.parametrize("value", ["/etc", "../../home", "someone/a-model", "https://host/x"])
def test_no_reader_names_a_folder_or_a_model_of_the_machine(
    reader: User, name: str, value: str
) -> None:
    asked = request("tradeoff", "token_pruning", params={name: value})
    with pytest.raises(ParameterError, match=r"command line|ASSAY_MODELS"):
        submit.submit(reader, asked)
    assert not Run.objects.exists()


def test_a_model_that_the_operator_allows_may_be_named(reader: User, settings: Settings) -> None:
    settings.RUN_MODELS = ["someone/a-model"]
    allowed = request("latency", "token_pruning", params={"model": "someone/a-model"})
    assert submit.submit(reader, allowed).params["model"] == "someone/a-model"
    for name, value in (("model", "someone/other"), ("folder", "someone/a-model")):
        with pytest.raises(ParameterError):
            submit.submit(reader, request("tradeoff", "token_pruning", params={name: value}))


def test_queued_with_all_that_repeats_it(reader: User) -> None:
    run = submit.submit(reader, request(params={"seconds": "0.25"}, seed=7))
    run.refresh_from_db()
    assert run.params == {"seconds": 0.25, "steps": 5, "words": ""}
    assert (run.state, run.seed, run.preset, run.version) == (State.QUEUED, 7, "smoke", 1)
    assert (run.charged_seconds, run.limit_seconds) == (30, 300)


@pytest.mark.parametrize(
    ("asked", "error", "said"),
    [
        ({"method": "trail"}, UnknownNameError, "trial"),
        ({"benchmark": "sleeps"}, UnknownNameError, "sleep"),
        ({"preset": "huge"}, ValidationError, "preset"),
        ({"params": {"steps": 0}}, ParameterError, "from 1 to 1000"),
        ({"params": {"path": "/etc"}}, ParameterError, "path"),
        ({"params": {"seconds": float("nan")}}, ParameterError, "seconds"),
        ({"device": "tpu"}, ValidationError, "'cpu' or 'gpu'"),
        ({"benchmark": "misbehave", "device": "gpu"}, RequestError, "GPU"),
        ({"seed": -1}, ValidationError, "seed"),
        ({"seed": 2**63}, ValidationError, "seed"),
        ({"path": "/etc"}, ValidationError, "path"),
    ],
)
def test_what_cannot_be_run_is_refused(
    reader: User, asked: dict[str, object], error: type[Exception], said: str
) -> None:
    with pytest.raises(error, match=said):
        submit.submit(reader, request(**asked))
    assert not Run.objects.exists()


@pytest.mark.parametrize("key", ["k" * 65, "a\u200bb"])
def test_a_key_that_is_none_is_refused(reader: User, key: str) -> None:
    with pytest.raises(RequestError, match="64"):
        submit.submit(reader, request(), key)
    assert not Run.objects.exists()


def test_a_key_is_answered_once_by_each_reader(reader: User) -> None:
    first = submit.submit(reader, request(), "press-1")
    assert submit.submit(reader, request(), "press-1") == first
    other = submit.submit(User.objects.create_user("other"), request(), "press-1")
    assert other != first
    assert Run.objects.count() == 2


def test_at_most_four_at_a_time(reader: User) -> None:
    runs = [submit.submit(reader, request()) for _ in range(4)]
    with pytest.raises(QuotaError, match="4 runs"):
        submit.submit(reader, request())
    submit.cancel(runs[0])
    submit.submit(reader, request())


def test_device_minutes_are_reserved_and_settled(reader: User, settings) -> None:
    settings.RUN_MINUTES_A_DAY = 5
    quick = request(preset="quick")
    runs = [submit.submit(reader, quick) for _ in range(2)]
    assert seconds_left(reader) == 60
    with pytest.raises(QuotaError, match="1 min of today’s 5"):
        submit.submit(reader, quick)
    submit.cancel(runs[0])
    assert seconds_left(reader) == 180
    yesterday = timezone.now().date() - timedelta(days=1)
    Run.objects.filter(pk=runs[1].pk).update(charged_on=yesterday)
    assert seconds_left(reader) == 300


def test_what_is_reserved_is_what_such_runs_took(reader: User) -> None:
    now = timezone.now()
    took = {"started_at": now, "finished_at": now + timedelta(seconds=41)}
    saying.queued(state=State.SUCCEEDED, preset="full", **took)
    assert submit.submit(reader, request(preset="full")).charged_seconds == 41


def test_quotas_do_not_bind_the_staff(settings) -> None:
    settings.RUN_MINUTES_A_DAY = 1
    staff = User.objects.create_user("operator", is_staff=True)
    for _ in range(5):
        submit.submit(staff, request(preset="full"))
    assert Run.objects.count() == 5


@pytest.mark.parametrize("state", list(State))
def test_cancel_from_every_state(state: State) -> None:
    run = saying.queued(state=state, token="t")
    wanted = {
        State.QUEUED: (True, State.CANCELLED),
        State.DISPATCHED: (True, State.CANCELLING),
        State.RUNNING: (True, State.CANCELLING),
        State.CANCELLING: (True, State.CANCELLING),
    }
    assert (submit.cancel(run), run.state) == wanted.get(state, (False, state))


def test_cancel_of_a_run_that_was_moved_meanwhile() -> None:
    run = saying.queued()
    Run.objects.update(state=State.DISPATCHED, token="t")
    assert submit.cancel(run)
    assert run.state == State.CANCELLING


def test_a_key_belongs_to_one_request(reader: User) -> None:
    first = submit.submit(reader, request(), "k")
    assert submit.submit(reader, request(), "k") == first
    with pytest.raises(submit.KeyReusedError, match=str(first.pk)):
        submit.submit(reader, request(params={"steps": 7}), "k")
    assert Run.objects.count() == 1
