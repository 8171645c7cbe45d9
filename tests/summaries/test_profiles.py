"""What is learnt of a server, and which servers of this machine are found."""

from __future__ import annotations

import socket
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client
from pytest_httpserver import HTTPServer

from tests.servers.openai import OpenAIServer
from tests.summaries.test_summarise import summarised
from webapp.papers.models import Paper
from webapp.summaries import nearby
from webapp.summaries.models import ServerCapability
from webapp.summaries.schema import bounded_schema, strict_schema
from workers.up import llama, model_here
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


def test_a_server_that_says_nothing_of_its_context_gets_no_further_field(
    arxiv: HTTPServer, model: OpenAIServer, paper: Paper
) -> None:
    assert summarised(paper).state == "done"
    assert not any({"max_tokens", "temperature"} & set(request) for request in model.requests)


def test_an_administrator_sees_the_servers_that_answer_here(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    client.force_login(User.objects.create_superuser("root"))
    with socket.create_server(("127.0.0.1", 0)) as free:
        closed = free.getsockname()[1]
    with OpenAIServer() as server:
        port = int(server.url.split(":")[2].split("/")[0])
        monkeypatch.setattr(nearby, "PORTS", {"Ollama": port, "vLLM": closed})
        page = client.get("/connections/?look=1").content.decode()
    assert "<h3>Ollama</h3>" in page
    assert "Test and use small" in " ".join(page.split())
    assert "<h3>vLLM</h3>" not in page
    monkeypatch.setattr(nearby, "PORTS", {"vLLM": closed})
    assert "No server answers" in client.get("/connections/?look=1").content.decode()


def test_a_port_that_serves_pages_is_no_server_of_models(
    httpserver: HTTPServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    httpserver.expect_request("/v1/models").respond_with_data("<html>Assay</html>", status=404)
    monkeypatch.setattr(nearby, "PORTS", {"vLLM": httpserver.port})
    assert nearby.look() == []


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
    assert model.context == 8192
    # 30 layers, keys and values of 3 heads of 64 numbers of 2 bytes, for each token.
    assert model.memory == model.size + 8192 * 30 * 2 * 3 * 64 * 2 + 200_000_000
    monkeypatch.setattr(llama, "free_memory", lambda: 2 * model.memory)
    llama.check_fits(model)
    monkeypatch.setattr(llama, "free_memory", lambda: 2 * model.memory - 10)
    with pytest.raises(ModelFileError, match=r"tiny.gguf needs about 0.4 GB of memory .* smaller"):
        llama.check_fits(model)


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
        model_here.prepare("nowhere.gguf")


def test_up_says_what_it_cannot_run(capfd: Any) -> None:
    from workers.up.command import main

    with pytest.raises(SystemExit, match="there is no such file"):
        main(["--model", "nowhere.gguf"])
