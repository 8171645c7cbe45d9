"""A model on this machine: started on a page, and paused while a run measures."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.test import Client
from pytest_httpserver import HTTPServer

from tests.processes import PATIENCE, wait_for
from tests.runs.saying import live_worker, queued
from webapp.core import connections
from webapp.operate import local_model as page
from webapp.runs.models import Run, State
from workers.up import local_model
from workers.up.local_model import LocalModel

pytestmark = pytest.mark.django_db(transaction=True)


@dataclass(frozen=True)
class Sleeping(LocalModel):
    """A model whose server is a process that waits."""

    started: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def start(self) -> subprocess.Popen[bytes]:
        server = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(3600)"])
        self.started.append(server)
        return server

    def alive(self) -> int:
        return sum(server.poll() is None for server in self.started)


def test_a_model_is_stopped_while_something_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local_model, "PAUSE", 0.05)
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
        wait_for(lambda: model.alive() == 1, "the server")
        # What another machine measures does not stop it.
        elsewhere = queued(state=State.RUNNING, worker=live_worker("gpu"))
        here = queued()
        for starts, state in enumerate((State.DISPATCHED, State.RUNNING, State.CANCELLING), 1):
            Run.objects.filter(pk=here.pk).update(state=state)
            wait_for(lambda: model.alive() == 0, "its end")
            assert len(model.started) == starts
            Run.objects.filter(pk=here.pk).update(state=State.SUCCEEDED)
            wait_for(lambda: model.alive() == 1, "its return")
        assert Run.objects.get(pk=elsewhere.pk).state == State.RUNNING
    finally:
        for server in model.started:
            server.kill()
        thread.join()
    # Its own end is an end: the supervisor starts it again.
    assert ends == [-9]


@pytest.fixture
def up(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, settings: Any
) -> Iterator[Callable[[], None]]:
    """Starts what `up` starts for models that are asked for, over a data directory of its own."""
    for name in connections.NAMES:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv(page.STARTER, "1")
    monkeypatch.setattr(local_model, "PAUSE", 0.05)
    settings.DATA_DIR = tmp_path
    settings.CONNECTIONS_FILE = tmp_path / "connections.json"
    threads: list[threading.Thread] = []

    def start() -> None:
        def serve() -> None:
            try:
                while asked := page.requested():
                    local_model._run(asked)
            finally:
                connection.close()

        threads.append(threading.Thread(target=serve))
        threads[-1].start()

    yield start
    page.request("")
    for thread in threads:
        thread.join()


@pytest.fixture
def administrator(client: Client) -> Client:
    client.force_login(User.objects.create_superuser("root"))
    return client


def page_of(administrator: Client) -> str:
    page = administrator.get("/connections/").content.decode()
    return " ".join(page.partition('id="here"')[2].partition("<h2>")[0].split())


def ask(administrator: Client, model: str) -> None:
    assert administrator.post("/connections/", {"here": model}).status_code == 302


QUESTION = "/v1/chat/completions"


@pytest.fixture
def loaded(
    httpserver: HTTPServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Sleeping]:
    """A model that is loaded: `httpserver` stands for its server and answers that it is healthy."""
    file = tmp_path / "tiny.gguf"
    file.touch()
    model = Sleeping(file, "tiny", httpserver.port)
    monkeypatch.setattr(local_model, "servable", lambda *_: model)
    httpserver.expect_request("/health").respond_with_data("{}")
    yield model
    for server in model.started:
        server.kill()


def test_a_model_is_ready_once_it_is_healthy_and_has_answered(
    httpserver: HTTPServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(local_model, "PAUSE", PATIENCE)
    model = LocalModel(Path("tiny.gguf"), "tiny", httpserver.port)
    httpserver.expect_ordered_request("/health").respond_with_data("loading", 503)
    assert not model.is_ready()
    for status, answer in ((503, "loading"), (200, "{}")):
        httpserver.expect_ordered_request("/health").respond_with_data("{}")
        httpserver.expect_ordered_request(QUESTION, "POST").respond_with_data(answer, status)
        assert model.is_ready() == (status == 200)
    (asked,) = {request.data for request, _ in httpserver.log if request.method == "POST"}
    assert json.loads(asked)["max_tokens"] == 1


def test_an_administrator_starts_and_stops_a_model_on_the_page(
    up: Callable[[], None], administrator: Client, loaded: Sleeping, httpserver: HTTPServer
) -> None:
    httpserver.expect_oneshot_request(QUESTION).respond_with_data("loading", 503)
    httpserver.expect_request(QUESTION).respond_with_data("{}")
    assert ">Start</button>" in page_of(administrator)
    ask(administrator, f"  {loaded.path} ")
    assert "is waiting to start" in page_of(administrator)
    assert "hx-get" in page_of(administrator)
    up()
    wait_for(lambda: "is running and connected" in page_of(administrator), "the model")
    # It is asked nothing until it is healthy; a look that lasted too long is one more.
    paths = [request.path for request, _ in httpserver.log]
    assert paths.count(QUESTION) == 2
    assert all(pair[0] == "/health" for pair in pairwise(paths) if pair[1] == QUESTION)
    assert paths[0] == "/health"
    assert "hx-get" not in page_of(administrator)
    assert connections.current().summary_model == "tiny"
    assert connections.current().openai_base_url == loaded.address
    run = queued(state=State.RUNNING)
    wait_for(lambda: "paused while a run measures" in page_of(administrator), "a pause")
    assert loaded.alive() == 0
    Run.objects.filter(pk=run.pk).update(state=State.SUCCEEDED)
    wait_for(lambda: "is running and connected" in page_of(administrator), "its return")
    ask(administrator, "")
    wait_for(lambda: not connections.stored(), "its end")
    assert loaded.alive() == 0
    assert connections.current().summary_model == ""
    assert ">Start</button>" in page_of(administrator)


def test_a_model_that_is_loaded_and_cannot_answer_is_not_connected(
    up: Callable[[], None], administrator: Client, loaded: Sleeping, httpserver: HTTPServer
) -> None:
    httpserver.expect_request(QUESTION).respond_with_data("no <template>", 500)
    ask(administrator, str(loaded.path))
    up()
    wait_for(lambda: "could not be started" in page_of(administrator), "the reason")
    assert "It is loaded, but answers 500: no &lt;template&gt;" in page_of(administrator)
    assert loaded.alive() == 0
    assert not connections.stored()
    # The same once more is tried once more.
    httpserver.clear()
    httpserver.expect_request("/health").respond_with_data("{}")
    httpserver.expect_request(QUESTION).respond_with_data("{}")
    ask(administrator, str(loaded.path))
    wait_for(lambda: "is running and connected" in page_of(administrator), "the model")


def test_a_full_disk_changes_nothing_and_says_so(
    administrator: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, settings: Any
) -> None:
    monkeypatch.setenv(page.STARTER, "1")
    settings.DATA_DIR = tmp_path
    page.request("tiny.gguf")
    page.report(page.ModelStatus(model="tiny.gguf", state="serving"))

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(tmp_path))

    monkeypatch.setattr(page, "write_whole", full)
    response = administrator.post("/connections/", {"here": "other.gguf"}, follow=True)
    shown = response.content.decode()
    assert "Nothing was changed: No space left on device." in shown
    assert "is running and connected" in shown


def test_why_a_model_could_not_be_started_stands_on_the_page(
    up: Callable[[], None], administrator: Client, tmp_path: Path
) -> None:
    ask(administrator, "nowhere.gguf")
    up()
    wait_for(lambda: "could not be started" in page_of(administrator), "the reason")
    assert "nowhere.gguf: there is no such file." in page_of(administrator)
    assert "Choose another" in page_of(administrator)


def test_a_site_that_up_does_not_serve_says_the_command(
    administrator: Client, monkeypatch: pytest.MonkeyPatch, client: Client
) -> None:
    monkeypatch.delenv(page.STARTER, raising=False)
    shown = page_of(administrator)
    assert "python3 manage.py up --model" in shown
    assert 'name="here"' not in shown
    client.force_login(User.objects.create_user("reader"))
    assert client.post("/connections/", {"here": "tiny.gguf"}).status_code == 403
