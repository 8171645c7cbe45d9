"""The server of a model on this machine leaves the processor to what is measured."""

from __future__ import annotations

import subprocess
import sys
import threading
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from django.db import connection

from tests.processes import wait_for
from tests.runs.saying import live_worker, queued
from webapp.runs.models import Run, State
from workers.up import model_here
from workers.up.model_here import ModelHere

pytestmark = pytest.mark.django_db(transaction=True)


@dataclass(frozen=True)
class Sleeping(ModelHere):
    """A model whose server is a process that waits."""

    started: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def start(self) -> subprocess.Popen[bytes]:
        server = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
        self.started.append(server)
        return server

    def alive(self) -> int:
        return sum(server.poll() is None for server in self.started)


def test_a_model_is_stopped_while_something_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(model_here, "PAUSE", 0.05)
    model = Sleeping(Path("model.gguf"), "model", 9)
    ends: list[object] = []

    def serve() -> None:
        try:
            model.run()
        except SystemExit as error:
            ends.append(error.code)
        finally:
            connection.close()

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        wait_for(lambda: model.alive() == 1, 10, "the server")
        # What another machine measures does not stop it.
        elsewhere = queued(state=State.RUNNING, worker=live_worker("gpu"))
        here = queued()
        for starts, state in enumerate((State.DISPATCHED, State.RUNNING, State.CANCELLING), 1):
            Run.objects.filter(pk=here.pk).update(state=state)
            wait_for(lambda: model.alive() == 0, 10, "its end")
            assert len(model.started) == starts
            Run.objects.filter(pk=here.pk).update(state=State.SUCCEEDED)
            wait_for(lambda: model.alive() == 1, 10, "its return")
        assert Run.objects.get(pk=elsewhere.pk).state == State.RUNNING
    finally:
        for server in model.started:
            server.kill()
        thread.join(10)
    # Its own end is an end: the supervisor starts it again.
    assert ends == [-9]
