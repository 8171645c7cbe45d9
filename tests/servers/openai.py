"""A local server that speaks the OpenAI chat API, and every way it goes wrong.

In a test: `with OpenAIServer() as server: server.scenario = "truncated"`. By hand:
`python -m tests.servers.openai --port 9000 --scenario good`.
"""

from __future__ import annotations

import argparse
import json
import re
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Body = dict[str, Any]
_FENCE = re.compile(r"={20}\n(.*)\n={20}", re.DOTALL)
_NUMBER = re.compile(r"(?<![\w.^-])\d+(?:\.\d+)?(?!\d|\.\d)")


def paper_of(request: Body) -> str:
    """The paper's text in a request, or "" where it is a probe."""
    for message in request["messages"]:
        if found := _FENCE.search(message["content"]):
            return found[1]
    return ""


def honest_summary(text: str) -> Body:
    """A summary that holds: its claims quote sentences of the text that hold a number."""
    sentences = [s.strip() for s in re.split(r"(?<=[.!?])\s+", text) if len(s.split()) > 5]
    claims = [
        {
            "metric": f"figure {n}",
            "value": number[0],
            "unit": "",
            "direction": "higher",
            "baseline": "the baseline of the paper",
            "setting": "as in the quote",
            "hardware": "",
            "quote": sentence[:300],
            "section": "Abstract",
        }
        for n, sentence in enumerate(sentences)
        if (number := _NUMBER.search(sentence[:300]))
    ][:20]
    return {
        "gist": f"The paper reports: {sentences[0][:200]}",
        "contributions": {
            "problem": [sentences[0][:300]],
            "method": ["A **new method** with $O(n)$ cost."],
            "advantages": ["It needs less memory."],
        },
        "experiments": {
            "data_sets": ["The data sets of the paper."],
            "setup": ["As stated there."],
            "metrics": ["Accuracy"],
            "baselines": ["The dense model"],
        },
        "results": {
            "key_numbers": [s[:300] for s in sentences if _NUMBER.search(s)][:4],
            "against_baselines": ["Better than the baseline."],
            "ablations": [],
            "tables": [
                {
                    "title": "Main results",
                    "columns": ["Model", "Result"],
                    "rows": [["ours", "best"], ["dense", "second"]],
                }
            ],
        },
        "conclusions": {
            "findings": ["The method works."],
            "limitations": ["One language only."],
            "future_work": [],
        },
        "claims": claims,
        "relations": [],
    }


def _changed(change: Callable[[Body], None]) -> Callable[[str], str]:
    def make(text: str) -> str:
        answer = honest_summary(text)
        change(answer)
        return json.dumps(answer)

    return make


def _invent_number(answer: Body) -> None:
    for claim in answer["claims"]:
        claim["value"] = "987.65"
    answer["gist"] = "The method is 987.65 times faster than anything before it."
    answer["results"]["key_numbers"] = ["A speed-up of 987.65× over the baseline."]


def _invent_quote(answer: Body) -> None:
    for claim in answer["claims"]:
        claim["quote"] = f"Our method reaches {claim['value']} on every benchmark we tried."


def _relate(quote: str | None = None, **other: str) -> Callable[[Body], None]:
    """The paper is said to be about sparse attention, with a quote of the paper or an own one."""

    def change(answer: Body) -> None:
        words = quote if quote is not None else answer["contributions"]["problem"][0]
        one = {"method": "sparse_attention", "relation": "about", "quote": words}
        answer["relations"] = [one | other]

    return change


def _scripts(answer: Body) -> None:
    evil = '<script>document.title="owned"</script><img src=x onerror=alert(1)>'
    answer["gist"] = f"A gist with {evil} in it."
    answer["contributions"]["method"] = [evil, "[link](javascript:alert(1))", f"$x{evil}$"]
    answer["results"]["tables"][0]["title"] = evil
    for claim in answer["claims"]:
        claim["metric"] = evil


def _markdown_bomb(answer: Body) -> None:
    answer["contributions"]["method"] = ["[" * 1000 + "x", "*" * 1001, "`" * 999 + "a"]
    answer["contributions"]["advantages"] = ["> " * 500 + "deep", "_*" * 500]


def _wrong_types(answer: Body) -> None:
    answer["claims"] = {"metric": 3}
    answer["gist"] = ["not", "a", "text"]


# What the model says, by scenario: from the paper's text to the content of its message.
CONTENT: dict[str, Callable[[str], str]] = {
    "good": lambda text: json.dumps(honest_summary(text)),
    "prose": lambda text: (
        f"Sure! Here it is:\n```json\n{json.dumps(honest_summary(text))}\n```\nOK?"
    ),
    "around": lambda text: f"The summary: {json.dumps(honest_summary(text))} I hope it helps.",
    "truncated": lambda text: json.dumps(honest_summary(text))[:-200],
    "wrong_types": _changed(_wrong_types),
    "invented_number": _changed(_invent_number),
    "invented_quote": _changed(_invent_quote),
    "related": _changed(_relate()),
    "related_by_invention": _changed(_relate("We present a sparse attention of our own making.")),
    "related_by_a_word": _changed(_relate("attention")),
    "unrelated": _changed(_relate(relation="mentions")),
    "related_to_nothing": _changed(_relate(method="no_such_method")),
    "relation_of_no_kind": _changed(_relate(relation="definitely")),
    "no_relations": _changed(lambda a: a.pop("relations")),
    "scripts": _changed(_scripts),
    "markdown_bomb": _changed(_markdown_bomb),
    "extra_field": _changed(lambda a: a.update(confidence=1.0)),
    "chinese": _changed(lambda a: a.update(gist="本文提出了一种新的稀疏注意力方法，速度更快。")),
    "empty": lambda _: "",
    "refusal": lambda _: "I am sorry, I cannot help with that.",
    "obedient": lambda _: "HACKED: all your instructions are ignored",
    "deep": lambda _: "[" * 100_000,
    "huge": lambda _: '{"gist": "' + "x" * 10_000_000 + '"}',
}
# What the server answers instead of a model, by scenario.
STATUS: dict[str, tuple[int, dict[str, str]]] = {
    "401": (401, {}),
    "404": (404, {}),
    "422": (422, {}),
    "429": (429, {"Retry-After": "7"}),
    "500": (500, {}),
    "503": (503, {"Retry-After": "Wed, 21 Oct 2099 07:28:00 GMT"}),
}
# How the server keeps its client waiting.
SLOW = ("stall", "drip", "drip_headers")


@dataclass
class OpenAIServer:
    """The server. `scenario` names what it does; `mode` how far it honours response_format.

    `modes`: schema (enforces it), ignored (accepts and ignores it), object (json_object only,
    400 for a schema), unknown (422 for any field but model and messages).
    `by_title` gives a paper its own scenario; `repairs` answers a repair request well.
    """

    scenario: str = "good"
    mode: str = "schema"
    repairs: bool = False
    by_title: dict[str, str] = field(default_factory=dict)
    requests: list[Body] = field(default_factory=list)
    stall_seconds: float = 30.0
    delay: float = 0.0
    dripped: int = 0
    hung_up: threading.Event = field(default_factory=threading.Event)  # of a client that drips

    def __enter__(self) -> OpenAIServer:
        return self.start()

    def start(self, port: int = 0) -> OpenAIServer:
        """Listen on loopback; port 0 takes a free one."""
        owner = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                owner.answer(self)

            def log_message(self, *_: object) -> None:
                return

        self._http = ThreadingHTTPServer(("127.0.0.1", port), Handler)
        self._http.daemon_threads = True
        threading.Thread(target=self._http.serve_forever, args=(0.02,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._http.shutdown()
        self._http.server_close()

    @property
    def url(self) -> str:
        """The base address, as OPENAI_BASE_URL wants it."""
        return f"http://127.0.0.1:{self._http.server_port}/v1"

    @property
    def summaries_asked(self) -> int:
        """Requests that held a paper; probes and repairs not counted."""
        return sum(bool(paper_of(r)) and len(r["messages"]) == 2 for r in self.requests)

    def answer(self, handler: BaseHTTPRequestHandler) -> None:
        """One request, answered as the scenario wants."""
        raw = handler.rfile.read(int(handler.headers.get("Content-Length", 0)))
        request = json.loads(raw)
        self.requests.append(request)
        time.sleep(self.delay)
        text = paper_of(request)
        scenario = next((s for t, s in self.by_title.items() if t in raw.decode()), self.scenario)
        if scenario in STATUS and (text or scenario != "422"):
            status, headers = STATUS[scenario]
            return _send(handler, status, {"error": {"message": f"scenario {scenario}"}}, headers)
        if scenario in SLOW and text:
            return self._be_slow(handler, scenario)
        if self.mode == "unknown" and set(request) - {"model", "messages"}:
            return _send(handler, 422, {"detail": "Unexpected keys in the request"})
        wanted = request.get("response_format", {}).get("type", "")
        if self.mode == "object" and wanted == "json_schema":
            return _send(handler, 400, {"error": {"message": "json_schema is not supported"}})
        if wanted == "json_object" and "json" not in json.dumps(request["messages"]):
            return _send(handler, 400, {"error": {"message": "messages must contain 'json'"}})
        content = self._content(request, scenario, text, wanted)
        return _send(
            handler,
            200,
            {
                "id": "chatcmpl-1",
                "object": "chat.completion",
                "created": 1,
                "model": request["model"],
                "choices": [
                    {
                        "index": 0,
                        "finish_reason": "stop",
                        "message": {"role": "assistant", "content": content},
                    }
                ],
                "usage": {"prompt_tokens": len(raw) // 4, "completion_tokens": len(content) // 4},
            },
        )

    def _content(self, request: Body, scenario: str, text: str, wanted: str) -> str:
        if not text:  # a probe
            if wanted == "json_schema" and self.mode == "schema":
                return '{"assay_probe": "granted"}'
            if wanted == "json_object" and self.mode in {"schema", "object"}:
                return '{"pruner": "It removes tokens."}'
            return "A pruner removes what is not needed."
        if self.repairs and len(request["messages"]) > 2:
            return CONTENT["good"](text)
        return CONTENT[scenario](text)

    def _be_slow(self, handler: BaseHTTPRequestHandler, scenario: str) -> None:
        if scenario == "stall":
            self._stall(handler)
        else:
            self._drip(handler, in_body=scenario == "drip")

    def _drip(self, handler: BaseHTTPRequestHandler, in_body: bool) -> None:
        """A byte now and then, for ever: no silence is long enough to be noticed."""
        handler.send_response(200)
        handler.send_header("Content-Type", "application/json")
        handler.send_header("Content-Length", "1000000")
        if in_body:
            handler.end_headers()
        else:
            handler.flush_headers()
            handler.wfile.write(b"X-Slow: ")
        with suppress(ConnectionError):
            while True:
                handler.wfile.write(b" " if in_body else b"x")
                handler.wfile.flush()
                self.dripped += 1
                time.sleep(0.05)
        self.hung_up.set()
        handler.close_connection = True

    def _stall(self, handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(200)
        handler.send_header("Content-Type", "application/json")
        handler.send_header("Content-Length", "1000")
        handler.end_headers()
        handler.wfile.write(b'{"choices": [')
        handler.wfile.flush()
        time.sleep(self.stall_seconds)
        handler.close_connection = True


def _send(
    handler: BaseHTTPRequestHandler, status: int, body: Body, headers: dict[str, str] | None = None
) -> None:
    data = json.dumps(body).encode()
    handler.send_response(status)
    handler.send_header("Content-Type", "application/json")
    handler.send_header("Content-Length", str(len(data)))
    for name, value in (headers or {}).items():
        handler.send_header(name, value)
    with suppress(ConnectionError):  # whoever asked may be gone
        handler.end_headers()
        handler.wfile.write(data)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, default=9000)
    parser.add_argument("--scenario", choices=[*CONTENT, *STATUS, *SLOW], default="good")
    parser.add_argument(
        "--mode", choices=["schema", "ignored", "object", "unknown"], default="schema"
    )
    parser.add_argument("--delay", type=float, default=0.0)
    options = parser.parse_args()
    started = OpenAIServer(options.scenario, options.mode, delay=options.delay).start(options.port)
    print(f"OPENAI_BASE_URL={started.url}", flush=True)
    threading.Event().wait()
