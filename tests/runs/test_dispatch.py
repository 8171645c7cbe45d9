"""The order of dispatch, and the choice of a worker."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.contrib.auth.models import User
from django.utils import timezone

from methods import protocol
from tests.runs import saying
from webapp.runs import broker, keys
from webapp.runs.dispatch import dispatch
from webapp.runs.models import Run, State
from webapp.runs.queries import queue_position

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def sent(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Run, dict]]:
    sent: list[tuple[Run, dict]] = []
    monkeypatch.setattr(broker, "send_job", lambda *args: sent.append(args) is None)
    return sent


def test_nobody_to_send_to() -> None:
    run = saying.queued()
    saying.live_worker("gpu", device="gpu")
    saying.live_worker("gone", last_seen=timezone.now() - timedelta(days=1))
    assert dispatch() == []
    assert (queue_position(run).ahead, queue_position(run).workers) == (0, 0)


def test_one_a_worker_oldest_first() -> None:
    now = timezone.now()
    runs = [saying.queued(queued_at=now + timedelta(seconds=n)) for n in range(3)]
    saying.live_worker("one")
    saying.live_worker("two")
    assert dispatch() == runs[:2]
    assert dispatch() == []
    assert queue_position(runs[2]).ahead == 0
    assert queue_position(Run.objects.get(pk=runs[0].pk)) is None


def test_one_a_reader() -> None:
    now = timezone.now()
    eager, patient = User.objects.create_user("eager"), User.objects.create_user("patient")
    first = saying.queued(eager, queued_at=now)
    saying.queued(eager, queued_at=now + timedelta(seconds=1))
    other = saying.queued(patient, queued_at=now + timedelta(seconds=2))
    for name in ("one", "two", "three"):
        saying.live_worker(name)
    assert dispatch() == [first, other]


def test_readers_take_turns() -> None:
    """Sixty runs of fifteen readers kept the sixteenth waiting until all had been measured."""
    now = timezone.now()
    readers = [User.objects.create_user(f"reader{n}") for n in range(15)]
    for at, reader in enumerate(readers * 4):
        saying.queued(reader, queued_at=now + timedelta(seconds=at))
    late = saying.queued(User.objects.create_user("late"), queued_at=now + timedelta(hours=1))
    last = Run.objects.filter(reader=readers[0]).latest("queued_at")
    assert (queue_position(late).ahead, queue_position(last).ahead) == (15, 3 + 14 * 3 + 1)
    # Heard of for longer than a busy machine takes to send all.
    saying.live_worker("one", last_seen=now + timedelta(hours=1))
    order = []
    while sent := dispatch():
        [run] = sent
        order.append(run.reader)
        Run.objects.filter(pk=run.pk).update(state=State.SUCCEEDED)
    assert order[:16] == [*readers, late.reader]
    assert order[16:31] == readers
    assert len(order) == 61


def test_a_job_is_signed_for_each_worker_that_may_take_it(sent: list[tuple[Run, dict]]) -> None:
    run = saying.queued(params={"steps": 3}, seed=5)
    workers = [saying.live_worker(name) for name in ("one", "two")]
    saying.live_worker("gpu", device="gpu")
    dispatch()
    [(sent_run, sealed)] = sent
    assert sent_run == run
    assert set(sealed) == {"one", "two"}
    run.refresh_from_db()
    for worker in workers:
        key = keys.key_of(worker)
        job = protocol.unseal(protocol.Job, sealed[worker.name], lambda _, key=key: key)
        assert (job.run, job.token, job.params, job.seed) == (
            str(run.pk), run.token, {"steps": 3}, 5,
        )  # fmt: skip
    with pytest.raises(protocol.ProtocolError):
        protocol.unseal(protocol.Job, sealed["one"], lambda _: keys.key_of(workers[1]))


def test_a_new_token_every_attempt() -> None:
    saying.live_worker()
    run = saying.queued()
    dispatch()
    run.refresh_from_db()
    first = run.token
    Run.objects.update(state=State.QUEUED, token="")
    dispatch()
    run.refresh_from_db()
    assert run.attempt == 2
    assert run.token not in {first, ""}
