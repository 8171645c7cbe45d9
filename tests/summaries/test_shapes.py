"""Answers and errors as each server of docs/models.md writes them, by its documentation."""

from __future__ import annotations

import json
from typing import Any

import pytest
from pytest_httpserver import HTTPServer
from werkzeug import Request, Response

from webapp.summaries.client import BusyError, ModelError, RefusedError, Reply, Server
from webapp.summaries.normalise import object_in

ASKED = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "A pruner?"}]
PATH = "/v1/chat/completions"


def ask(httpserver: HTTPServer, body: Any, status: int = 200, **server: Any) -> Reply:
    """The reply to one question where every request gets this body."""
    text = body if isinstance(body, str) else json.dumps(body)
    answer = Response(text, status, content_type="application/json")
    httpserver.expect_request(PATH).respond_with_response(answer)
    return Server(httpserver.url_for("/v1"), "m", "", **server).ask(ASKED)


def completion(message: dict[str, Any], finish: str = "stop", **other: Any) -> dict[str, Any]:
    choice = {"index": 0, "message": {"role": "assistant", **message}, "finish_reason": finish}
    usage = {"prompt_tokens": 9, "completion_tokens": 3, "total_tokens": 12}
    return {"object": "chat.completion", "choices": [choice], "usage": usage} | other


ANSWERS = {
    "Ollama": completion({"content": "Yes."}, id="chatcmpl-1", system_fingerprint="fp_ollama"),
    "vLLM": completion({"content": "Yes.", "reasoning_content": None, "tool_calls": []}),
    "LM Studio": completion({"content": "Yes."}, stats={}, logprobs=None),
    "Azure": completion(
        {"content": "Yes.", "refusal": None},
        prompt_filter_results=[{"prompt_index": 0, "content_filter_results": {}}],
    ),
    "OpenRouter": completion({"content": "Yes.", "reasoning": None}, provider="Somebody"),
    "Gemini": completion({"content": "Yes."}, model="gemini-2.5-flash"),
    "Anthropic": completion({"content": "Yes.", "refusal": None}, service_tier=None),
}


@pytest.mark.parametrize("name", ANSWERS)
def test_each_servers_answer_is_read(httpserver: HTTPServer, name: str) -> None:
    reply = ask(httpserver, ANSWERS[name])
    assert (reply.text, reply.tokens_in, reply.tokens_out, reply.cut) == ("Yes.", 9, 3, False)


ERRORS = {
    "Ollama, unknown model": (
        404,
        {"error": {"message": "model 'm' not found, try pulling it first", "type": "api_error"}},
        "model 'm' not found, try pulling it first",
    ),
    "Ollama, before 0.5": (
        404,
        {"error": "model 'm' not found, try pulling it first"},
        "model 'm' not found, try pulling it first",
    ),
    "Ollama, memory": (
        400,
        {"error": "model requires more system memory (9.1 GiB) than is available (4.2 GiB)"},
        "model requires more system memory",
    ),
    "Ollama, crash": (
        500,
        {"error": "llama runner process has terminated: exit status 2"},
        "llama runner process has terminated",
    ),
    "vLLM": (
        404,
        {"object": "error", "message": "The model `m` does not exist.", "code": 404},
        "The model `m` does not exist.",
    ),
    "vLLM, FastAPI": (
        422,
        {"detail": [{"loc": ["body", "seed"], "msg": "value is not a valid integer"}]},
        "body.seed: value is not a valid integer",
    ),
    "a detail": (400, {"detail": "bad thing"}, "bad thing"),
    "LM Studio": (400, {"error": "No models loaded."}, "No models loaded."),
    "Azure": (
        404,
        {"error": {"code": "DeploymentNotFound", "message": "The deployment does not exist."}},
        "The deployment does not exist.",
    ),
    "Azure, filter": (
        400,
        {"error": {"message": "The prompt triggered the filter.", "code": "content_filter"}},
        "The prompt triggered the filter.",
    ),
    "OpenRouter": (
        402,
        {"error": {"message": "Provider returned error", "metadata": {"raw": "no credits"}}},
        "Provider returned error (no credits)",
    ),
    "Gemini": (
        400,
        [{"error": {"code": 400, "message": "API key not valid.", "status": "INVALID_ARGUMENT"}}],
        "API key not valid.",
    ),
    "Anthropic": (
        401,
        {
            "type": "error",
            "error": {"type": "authentication_error", "message": "invalid x-api-key"},
        },
        "invalid x-api-key",
    ),
    "plain text": (400, "the model is not there", "the model is not there"),
}


@pytest.mark.parametrize("name", ERRORS)
def test_each_servers_error_reaches_the_page(httpserver: HTTPServer, name: str) -> None:
    status, body, text = ERRORS[name]
    kind = BusyError if status >= 500 else RefusedError
    with pytest.raises(kind) as raised:
        ask(httpserver, body, status)
    assert text in str(raised.value)
    assert "Error code" not in str(raised.value)
    assert "{" not in str(raised.value)


@pytest.mark.parametrize(
    ("status", "error"),
    [
        (400, {"error": {"message": "Developer instruction is not enabled for models/gemma-3"}}),
        (500, {"error": "System role not supported"}),
        (400, {"detail": "Only user and assistant roles are supported!"}),
    ],
)
def test_a_model_without_a_system_role_gets_its_instructions(
    httpserver: HTTPServer, status: int, error: dict[str, Any]
) -> None:
    asked: list[list[dict[str, str]]] = []

    def answer(request: Request) -> Response:
        messages = json.loads(request.get_data())["messages"]
        asked.append(messages)
        refuses = any(message["role"] == "system" for message in messages)
        body = error if refuses else completion({"content": "Yes."})
        return Response(
            json.dumps(body), status if refuses else 200, content_type="application/json"
        )

    httpserver.expect_request(PATH).respond_with_handler(answer)
    requests: list[int] = []
    server = Server(
        httpserver.url_for("/v1"), f"gemma-{status}", "", before_request=lambda: requests.append(1)
    )
    assert server.ask(ASKED).text == "Yes."
    assert asked[-1] == [{"role": "user", "content": "Be brief.\n\nA pruner?"}]
    before = len(asked)
    assert server.ask(ASKED).text == "Yes."
    assert len(asked) == before + 1  # it is remembered
    assert len(requests) == len(asked)


def test_a_content_filter_is_named(httpserver: HTTPServer) -> None:
    with pytest.raises(ModelError, match="content filter withheld"):
        ask(httpserver, completion({"content": '{"gist": "Half'}, "content_filter"))


def test_json_in_a_json_string_is_unwrapped() -> None:
    inner = r'{"gist": "It is $3.5\\times$ faster"}'
    assert object_in(json.dumps(inner), {"gist"}) == {"gist": r"It is $3.5\times$ faster"}
