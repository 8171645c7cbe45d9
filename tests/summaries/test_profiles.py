"""Detection of servers on this machine, and of their abilities."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client
from pytest_httpserver import HTTPServer

from tests.processes import PATIENCE, free_port
from tests.servers.openai import OpenAIServer
from tests.summaries.test_summarise import summarised
from webapp.operate import trials
from webapp.papers.models import Paper
from webapp.summaries import capability
from webapp.summaries.client import Server
from webapp.summaries.models import ServerCapability
from webapp.summaries.schema import bounded_schema, strict_schema
from workers.up import llama, local_model
from workers.up.llama import ModelFile, ModelFileError

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.mark.parametrize("mode", ["llama.cpp", "vllm"])
def test_a_text_is_fitted_to_the_context_that_a_server_says(
    arxiv: HTTPServer, model: OpenAIServer, paper: Paper, mode: str
) -> None:
    model.mode, model.context = mode, 4096
    Paper.objects.update(abstract="It is a long text of a new method. " * 800)
    arxiv.clear()
    arxiv.expect_request("/html/2512.00001v1").respond_with_data("no", status=404)
    arxiv.expect_request("/pdf/2512.00001v1").respond_with_data(b"%PDF-1.4 broken")
    paper.refresh_from_db()
    row = summarised(paper)
    assert row.state == "done"
    known = ServerCapability.objects.get()
    assert (known.context, known.takes_bounds) == (4096, mode == "llama.cpp")
    assert 0 < row.text_share < 0.5
    asked = model.requests[-1]
    assert (asked["max_tokens"], asked["temperature"]) == (1024, 0.2)
    # It fitted at once: no request was refused as too long.
    assert model.summaries_asked == 1
    schema = asked["response_format"]["json_schema"]["schema"]
    assert schema == (bounded_schema(1024) if mode == "llama.cpp" else strict_schema())


@pytest.mark.parametrize(
    ("mode", "slots", "setting", "at_once"),
    [
        ("llama.cpp", 1, 0, 1),
        ("llama.cpp", 2, 0, 2),
        ("vllm", 1, 0, 3),
        ("ollama", 1, 0, 1),
        ("ollama", 1, 2, 2),
    ],
)
def test_a_server_is_asked_no_more_at_once_than_it_takes(  # noqa: PLR0917 - one case
    model: OpenAIServer, settings: Any, mode: str, slots: int, setting: int, at_once: int
) -> None:
    model.mode, model.context, model.slots = mode, 4096, slots
    settings.SUMMARY_CONCURRENCY, settings.SUMMARY_PROCESSES = setting, setting or 3
    server = Server.configured()
    assert server is not None
    assert capability.concurrency(server) == (setting or 1)  # it is on this machine, and unknown
    capability.find_mode(server)
    assert capability.concurrency(server) == at_once
    elsewhere = Server("https://models.example/v1", "small", "")
    assert capability.concurrency(elsewhere) == (setting or 3)


def test_an_administrator_sees_what_is_known_of_the_server(
    client: Client, model: OpenAIServer
) -> None:
    model.mode, model.context, model.slots = "llama.cpp", 4096, 2
    client.force_login(User.objects.create_superuser("root"))
    server = Server.configured()
    assert server is not None
    assert "context of" not in client.get("/connections/").content.decode()
    capability.find_mode(server)
    capability.learn_prompt(server, 8_000)
    page = " ".join(client.get("/connections/").content.decode().split())
    assert "The server enforces a JSON schema." in page
    assert "Its context is 4,096 tokens." in page
    assert "It reads inputs of up to 8,000 characters in full." in page
    assert "At most 2 summaries are made at the same time." in page


def test_a_server_that_says_nothing_of_its_context_gets_no_further_field(
    arxiv: HTTPServer, model: OpenAIServer, paper: Paper
) -> None:
    assert summarised(paper).state == "done"
    assert not any({"max_tokens", "temperature"} & set(request) for request in model.requests)


def test_an_answer_that_the_servers_own_limit_cuts_off_has_failed(
    arxiv: HTTPServer, model: OpenAIServer, paper: Paper
) -> None:
    model.own_limit = 100
    row = summarised(paper)
    assert (row.state, row.attempt) == ("failed", 1)
    assert row.reason.endswith("it was cut off at the server's length limit")


def test_an_administrator_sees_the_servers_that_answer_here(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    client.force_login(User.objects.create_superuser("root"))
    closed = free_port()
    with OpenAIServer() as server:
        port = int(server.url.split(":")[2].split("/")[0])
        monkeypatch.setattr(trials, "LOOK_SECONDS", PATIENCE)
        monkeypatch.setattr(trials, "PORTS", {"Ollama": port, "vLLM": closed})
        page = client.get("/connections/?look=1").content.decode()
    assert "<h3>Ollama</h3>" in page
    assert "Test and use small" in " ".join(page.split())
    assert "<h3>vLLM</h3>" not in page
    monkeypatch.setattr(trials, "PORTS", {"vLLM": closed})
    assert "No server answers" in client.get("/connections/?look=1").content.decode()


def test_a_port_that_serves_pages_is_no_server_of_models(
    httpserver: HTTPServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    httpserver.expect_request("/v1/models").respond_with_data("<html>Assay</html>", status=404)
    monkeypatch.setattr(trials, "PORTS", {"vLLM": httpserver.port})
    assert trials.look() == []


def test_names_of_models_nearby_are_clean(
    httpserver: HTTPServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    hidden = {"data": [{"id": "qu\u202ee\u200bn\ud800"}]}
    httpserver.expect_request("/v1/models").respond_with_data(json.dumps(hidden))
    monkeypatch.setattr(trials, "LOOK_SECONDS", PATIENCE)
    monkeypatch.setattr(trials, "PORTS", {"vLLM": httpserver.port})
    assert [one.models for one in trials.look()] == [("quen",)]


def gguf(path: Path, **numbers: int) -> Path:
    """A file with the head of a GGUF model, and nothing else."""

    def text(value: str) -> bytes:
        return len(value).to_bytes(8, "little") + value.encode()

    entries = [text("general.name") + (8).to_bytes(4, "little") + text("tiny")]
    words = b"".join(map(text, ["a", "b"]))
    of_texts = (8).to_bytes(4, "little") + (2).to_bytes(8, "little")
    entries += [text("tokenizer.ggml.tokens") + (9).to_bytes(4, "little") + of_texts + words]
    for name, value in numbers.items():
        key = text("llama." + name.replace("__", "."))
        entries.append(key + (4).to_bytes(4, "little") + value.to_bytes(4, "little"))
    head = b"GGUF" + (3).to_bytes(4, "little") + bytes(8) + len(entries).to_bytes(8, "little")
    path.write_bytes(head + b"".join(entries))
    return path


LAYERS = {
    "block_count": 30,
    "embedding_length": 576,
    "attention__head_count": 9,
    "attention__head_count_kv": 3,
    "context_length": 8192,
}


def test_the_memory_of_a_model_is_reckoned_before_it_is_loaded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = ModelFile.read(gguf(tmp_path / "tiny.gguf", **LAYERS))
    assert model.contexts() == [8192, 4096]
    # 30 layers, keys and values of 3 heads of 64 numbers of 2 bytes, for each token.
    most = model.size + 8192 * 30 * 2 * 3 * 64 * 2 + 200_000_000
    assert model.memory(8192) == most
    # Its file says how wide a head is where that is not the width by the heads.
    wide = LAYERS | {"attention__key_length": 128, "attention__value_length": 96}
    file = ModelFile.read(gguf(tmp_path / "wide.gguf", **wide))
    assert file.memory(1000) == file.size + 1000 * 30 * 3 * (128 + 96) * 2 + 200_000_000
    short = ModelFile.read(gguf(tmp_path / "short.gguf", **(LAYERS | {"context_length": 2048})))
    assert short.contexts() == [2048]
    monkeypatch.setattr(llama, "free_memory", lambda: 2 * most)
    assert llama.fitting_context(model) == 8192
    monkeypatch.setattr(llama, "free_memory", lambda: 2 * most - 10)
    assert llama.fitting_context(model) == 4096
    monkeypatch.setattr(llama, "free_memory", lambda: 2 * model.memory(4096) - 10)
    with pytest.raises(ModelFileError, match=r"tiny.gguf needs about 0.3 GB of memory .* smaller"):
        llama.fitting_context(model)


@pytest.mark.parametrize(
    ("content", "words"),
    [(b"", "no GGUF file"), (b"GGUF\x03\0\0\0", "no GGUF"), (b"PK\x03\x04" * 9, "no GGUF")],
)
def test_what_is_no_model_is_refused_in_words(tmp_path: Path, content: bytes, words: str) -> None:
    file = tmp_path / "x.gguf"
    file.write_bytes(content)
    with pytest.raises(ModelFileError, match=words):
        ModelFile.read(file)
    with pytest.raises(ModelFileError, match="there is no such file"):
        local_model.prepare("nowhere.gguf")


def test_up_says_what_it_cannot_run(capfd: Any) -> None:
    from workers.up.command import main

    with pytest.raises(SystemExit, match="there is no such file"):
        main(["--model", "nowhere.gguf"])


def from_hub(name: str, endpoint: str, cache: Path) -> subprocess.CompletedProcess[str]:
    """The model that `up --model NAME` would serve, with another address for the hub."""
    code = f"from workers.up.local_model import find_model; print(find_model({name!r}))"
    environment = os.environ | {"HF_ENDPOINT": endpoint, "HF_HOME": str(cache)}
    environment.pop("HF_HUB_OFFLINE", None)
    command = [sys.executable, "-c", code]
    return subprocess.run(command, env=environment, capture_output=True, text=True)


def test_a_model_is_fetched_from_the_hub_by_name_once(
    httpserver: HTTPServer, tmp_path: Path
) -> None:
    content = gguf(tmp_path / "tiny.gguf", **LAYERS).read_bytes()
    files = ["README.md", "tiny-Q8_0.gguf", "tiny-q4_k_m.gguf"]
    tree = [{"type": "file", "path": name, "size": 9, "oid": "0" * 40} for name in files]
    httpserver.expect_request("/api/models/org/tiny-GGUF/tree/main").respond_with_json(tree)
    missing = {"X-Error-Code": "RepoNotFound"}
    httpserver.expect_request("/api/models/org/none/tree/main").respond_with_data(
        "", status=404, headers=missing
    )
    headers = {"ETag": '"1"', "X-Repo-Commit": "0" * 40}
    file = re.compile(r"/org/tiny-GGUF/resolve/\w+/tiny-q4_k_m.gguf")
    httpserver.expect_request(file).respond_with_data(content, headers=headers)

    fetched = from_hub("org/tiny-GGUF", httpserver.url_for("").rstrip("/"), tmp_path / "cache")
    assert Path(fetched.stdout.strip()).read_bytes() == content, fetched.stderr

    several = from_hub("org/tiny-GGUF:q", httpserver.url_for("").rstrip("/"), tmp_path / "cache")
    assert "Choose one file of org/tiny-GGUF" in several.stderr
    assert "tiny-Q8_0.gguf, tiny-q4_k_m.gguf" in several.stderr
    none = from_hub("org/none", httpserver.url_for("").rstrip("/"), tmp_path / "cache")
    assert "org/none cannot be fetched from the hub" in none.stderr
    away = from_hub("org/tiny-GGUF:Q8_0", "http://127.0.0.1:9", tmp_path / "cache")
    assert "cannot be fetched from the hub" in away.stderr
