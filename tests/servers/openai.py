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

from tests.processes import FOREVER

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
    sentences = sentences or [" ".join(text.split()) or "The text is empty."]
    claims = [
        {
            "metric": " ".join(sentence[: number.start()].split()[-3:]) or "the result",
            "subject": "",
            "value": number[0],
            "unit": "",
            "direction": "higher",
            "baseline": "",
            "setting": "",
            "hardware": "",
            "quote": sentence[:300],
            "section": "Abstract",
        }
        for sentence in sentences
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


def _slip(change: Callable[[str], str]) -> Callable[[str], str]:
    """A good answer, its JSON changed as text."""
    return lambda text: change(json.dumps(honest_summary(text), indent=1))


def _tex(answer: Body) -> None:
    answer["gist"] = "It is 3.5$@times$ faster, for $@rho$, $@beta$, $@frac{1}{2}$, $@nabla$ too."
    answer["contributions"]["method"] = ["Of $@theta$ and $@alpha$, @emph{not} of @textbf{x}."]


DRAFT = '{"gist": "a draft that is not meant", "contributions": {}, "experiments": {}}'

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
    "closing_mark": lambda t: f"Fill {{gist}} first.\n</think>\n{json.dumps(honest_summary(t))}",
    "thinking": lambda t: f"<thinking>{{x}}</thinking>\n\n{json.dumps(honest_summary(t))}",
    "two_blocks": lambda t: (
        f"<think>{DRAFT}</think> Well. <think>{{b</think>{json.dumps(honest_summary(t))}"
    ),
    "text_before": lambda t: f"Let me <think>{DRAFT}</think>{json.dumps(honest_summary(t))}",
    "seed": lambda t: f"<seed:think>{{x}} {DRAFT}</seed:think>{json.dumps(honest_summary(t))}",
    "mistral": lambda t: f"[THINK]{{x}} {DRAFT}[/THINK]{json.dumps(honest_summary(t))}",
    "kimi": lambda t: f"◁think▷{{x}}◁/think▷{json.dumps(honest_summary(t))}",
    "harmony": lambda t: (
        f"<|channel|>analysis<|message|>We need {{gist}}. {DRAFT}<|end|><|start|>assistant"
        f"<|channel|>final<|message|>{json.dumps(honest_summary(t))}<|return|>"
    ),
    "harmony_without_marks": lambda t: (
        f"analysisWe need {{gist}}.assistantfinal{json.dumps(honest_summary(t))}"
    ),
    "answer_mark": lambda t: (
        f"<think>{{x}}</think><answer>{json.dumps(honest_summary(t))}</answer>"
    ),
    "trailing_comma": _slip(lambda a: a[:-2] + ",\n}"),
    "comment": _slip(lambda a: a.replace("{", "{ // the summary", 1)),
    "second_object": _slip(lambda a: f'{a}\n{{"note": "done"}}'),
    "remark": _slip(lambda a: f"```json\n{a}\n```\nNote the {{curly}} remark."),
    "single_quotes": lambda t: str(honest_summary(t) | {"relations": None}),
    "unescaped_quotes": _slip(lambda a: a.replace("new method", 'new "plain" method')),
    "no_last_brace": _slip(lambda a: a[:-2]),
    "missing_comma": _slip(lambda a: a.replace(',\n "claims"', '\n "claims"')),
    "wrapped": lambda t: json.dumps({"paper_summary": honest_summary(t)}),
    "in_a_list": lambda t: json.dumps([honest_summary(t)]),
    "null_unit": _changed(lambda a: [c.update(unit=None) for c in a["claims"]]),
    "capital_direction": _changed(lambda a: [c.update(direction="Higher") for c in a["claims"]]),
    "many_claims": _changed(lambda a: a.update(claims=(a["claims"] * 40)[:32])),
    "long_gist": _changed(lambda a: a.update(gist=("It is a method. " * 40)[:500])),
    "null_relations": _changed(lambda a: a.update(relations=None)),
    "null_lists": _changed(lambda a: a["results"].update(ablations=None, tables=None)),
    "number_value": _changed(lambda a: [c.update(value=float(c["value"])) for c in a["claims"]]),
    "bad_claim": _changed(lambda a: a["claims"].append({"metric": "x"})),
    "tex": lambda t: _changed(_tex)(t).replace("@", "\\"),
    "refusal": lambda _: "I am sorry, I cannot help with that.",
    "obedient": lambda _: "HACKED: all your instructions are ignored",
    "deep": lambda _: "[" * 100_000,
    "huge": lambda _: '{"gist": "' + "x" * 10_000_000 + '"}',
}
# What the model's message is, by scenario, where it is more than a text.
MESSAGES: dict[str, Callable[[str], Body]] = {
    "parts": lambda t: {
        "content": [
            {"type": "thinking", "thinking": [{"type": "text", "text": f"Well. {DRAFT}"}]},
            {"type": "text", "text": json.dumps(honest_summary(t))[:40]},
            {"type": "text", "text": json.dumps(honest_summary(t))[40:]},
        ]
    },
    "reasoning_apart": lambda t: {
        "content": json.dumps(honest_summary(t)),
        "reasoning_content": f"{{}} {DRAFT}",
    },
    "all_reasoning": lambda t: {"content": None, "reasoning": json.dumps(honest_summary(t))},
    "refuses": lambda _: {"content": None, "refusal": "I can’t help with that."},
}
# What a server answers with status 200 instead of a completion, by scenario.
BODIES: dict[str, Body] = {
    "error_429": {"error": {"message": "rate limited upstream", "code": 429}},
    "error_wait": {"error": {"message": "Rate limit reached. Please try again in 1m7.5s."}},
    "error_overloaded": {"error": "Model is overloaded", "error_type": "overloaded"},
    "error_choice": {"choices": [{"error": {"code": 502, "message": "upstream hung up"}}]},
    "error_throttled": {"code": "Throttling.RateQuota", "message": "Requests throttled"},
    "error_refused": {"error": {"message": "no such model", "code": "model_not_found"}},
    "error_old_vllm": {"object": "error", "message": "bad", "type": "X", "code": 400},
}
# What the server answers instead of a model, by scenario.
STATUS: dict[str, tuple[int, dict[str, str]]] = {
    "401": (401, {}),
    "404": (404, {}),
    "422": (422, {}),
    "429": (429, {"Retry-After": "7"}),
    "500": (500, {}),
    "503": (503, {"Retry-After": "Wed, 21 Oct 2099 07:28:00 GMT"}),
    "loading model": (503, {}),
}
# How the server streams: it ends in the middle, has an error there, hangs there; it writes comments
# between; it ignores `stream`, refuses it, or refuses its options.
STREAMS = ("yes", "cut", "error", "hangs", "comments", "ignored", "refused", "no options")
# How the server keeps its client waiting.
SLOW = ("stall", "drip", "drip_headers")


Rule = Callable[[Body, int, int], Body | None]  # of a request, its tokens and the context


def _error(message: str, **more: object) -> Body:
    return {"error": {"message": message, "type": "invalid_request_error"} | more}


def _json_is_named(request: Body, _tokens: int, _context: int) -> Body | None:
    """OpenAI's and DashScope's json_object: some message must contain the word."""
    wanted = request.get("response_format", {}).get("type")
    if wanted != "json_object" or "json" in json.dumps(request["messages"]).lower():
        return None
    return _error("'messages' must contain the word 'json' in some form, to use 'response_format'")


_FIELDS = {"model", "messages", "response_format", "stream", "stream_options"}


def _known_fields(request: Body, _tokens: int, _context: int) -> Body | None:
    unknown = sorted(set(request) - _FIELDS)
    return _error(f"Unrecognized request argument supplied: {unknown[0]}") if unknown else None


def _strict_schema(request: Body, _tokens: int, _context: int) -> Body | None:
    """OpenAI's subset of JSON Schema (platform.openai.com/docs/guides/structured-outputs)."""
    wanted = request.get("response_format", {})
    if wanted.get("type") != "json_schema":
        return None
    form = wanted["json_schema"]
    if not re.fullmatch(r"[A-Za-z0-9_-]{1,64}", form.get("name", "")):
        return _error("Invalid 'response_format.json_schema.name'")
    schema = form["schema"]
    if schema.get("type") != "object" or "anyOf" in schema:
        return _error("schema must be a JSON Schema of 'type: \"object\"'")
    wrong = _outside_subset(schema, ())
    return (
        _error(f"Invalid schema for response_format '{form['name']}': {wrong}") if wrong else None
    )


_SUBSET = {
    *("$defs", "$ref", "type", "properties", "required", "additionalProperties", "items", "enum"),
    *("anyOf", "const", "description", "title"),
    *("pattern", "format", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"),
    *("multipleOf", "minItems", "maxItems"),
}


def _outside_subset(node: Body, path: tuple[str, ...]) -> str:
    """Why a schema is refused; "" if it is taken."""
    for keyword in node.keys() - _SUBSET:
        return f"In context={path}, '{keyword}' is not permitted."
    if "$ref" in node and len(node) > 1:
        return f"In context={path}, $ref cannot have keywords {sorted(node.keys() - {'$ref'})}."
    if node.get("type") == "object":
        if node.get("additionalProperties") is not False:
            return f"In context={path}, 'additionalProperties' is required to be false."
        if set(node.get("required", ())) != set(node.get("properties", ())):
            return f"In context={path}, 'required' must include every key in properties."
    inner = {**node.get("properties", {}), **node.get("$defs", {})}
    inner |= {"items": node["items"]} if "items" in node else {}
    inner |= {str(n): one for n, one in enumerate(node.get("anyOf", []))}
    return next(
        (w for name, one in inner.items() if (w := _outside_subset(one, (*path, name)))), ""
    )


def _openai_context(_request: Body, tokens: int, context: int) -> Body | None:
    if not context or tokens <= context:
        return None
    return _error(
        f"This model's maximum context length is {context} tokens. However, your messages "
        f"resulted in {tokens} tokens. Please reduce the length of the messages.",
        param="messages",
        code="context_length_exceeded",
    )


def _vllm_context(_request: Body, tokens: int, context: int) -> Body | None:
    if not context or tokens <= context:
        return None
    message = f"This model's maximum context length is {context} tokens. However, you requested "
    message += f"{tokens} tokens in the messages, Please reduce the length of the messages."
    return {"object": "error", "message": message, "type": "BadRequestError", "code": 400}


def _llama_context(_request: Body, tokens: int, context: int) -> Body | None:
    if not context or tokens <= context:
        return None
    return {
        "error": {
            "code": 400,
            "message": "the request exceeds the available context size, try increasing it",
            "type": "exceed_context_size_error",
            "n_prompt_tokens": tokens,
            "n_ctx": context,
        }
    }


def _dashscope(request: Body, tokens: int, context: int) -> Body | None:
    """JSON Schema for few models; the most input tokens in the message alone."""
    if request.get("response_format", {}).get("type") == "json_schema":
        return _error("'response_format' of type 'json_schema' is not supported by this model.")
    if context and tokens > context:
        return _error(
            f"<400> InternalError.Algo.InvalidParameter: Range of input length should be "
            f"[1, {context}]",
            code="invalid_parameter_error",
        )
    return None


# What vendors document that they refuse. vLLM, Ollama and llama.cpp take any field and any schema.
RULES: dict[str, tuple[Rule, ...]] = {
    "openai": (_known_fields, _strict_schema, _json_is_named, _openai_context),
    "dashscope": (_json_is_named, _dashscope),
    "vllm": (_vllm_context,),
    "ollama": (),
    "llama.cpp": (_llama_context,),
}
ENFORCE = {"schema", "openai", "vllm", "ollama", "llama.cpp"}
MODES = ["schema", "ignored", "object", "unknown", *RULES]


def _instance(node: Body, schema: Body) -> Any:
    """The shortest value that a schema allows."""
    if "$ref" in node:
        return _instance(schema["$defs"][node["$ref"].rpartition("/")[2]], schema)
    if "enum" in node:
        return node["enum"][0]
    if node["type"] == "object":
        return {name: _instance(one, schema) for name, one in node["properties"].items()}
    return {"string": "", "array": [], "number": 0, "integer": 0, "boolean": False}[node["type"]]


@dataclass
class OpenAIServer:
    """The server. `scenario` names what it does; `mode` how far it honours response_format.

    `modes`: schema (enforces it), ignored (accepts and ignores it), object (json_object only,
    400 for a schema), unknown (422 for any field but model and messages), and the names in
    `RULES`, which hold a request to what a vendor documents. `context` is how many tokens those
    take (0: any number).
    `given` is an answer written by hand. `by_title` gives a paper its own scenario; `repairs`
    answers a repair request well.
    """

    scenario: str = "good"
    given: str = ""  # what the model says of a paper, whatever the scenario
    mode: str = "schema"
    repairs: bool = False
    context: int = 0
    slots: int = 1  # of llama.cpp
    own_limit: int = 0  # tokens of an answer, unless the request says more; 0: any number
    by_title: dict[str, str] = field(default_factory=dict)
    requests: list[Body] = field(default_factory=list)
    delay: float = 0.0
    streams: str = "yes"  # one of STREAMS
    pause: float = 0.0  # seconds between two pieces of a stream
    pieces: int = 0  # of streams that were sent
    left: threading.Event = field(default_factory=threading.Event)  # a client hung up on a stream
    dripped: int = 0
    hung_up: threading.Event = field(default_factory=threading.Event)  # of a client that drips
    answering: threading.Event = field(default_factory=threading.Event)  # cleared: all wait

    def __post_init__(self) -> None:
        self.answering.set()

    def __enter__(self) -> OpenAIServer:
        return self.start()

    def start(self, port: int = 0) -> OpenAIServer:
        """Listen on loopback; port 0 takes a free one."""
        owner = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                if self.path == "/props" and owner.mode == "llama.cpp":
                    return _send(self, 200, {"total_slots": owner.slots})
                return owner.list_models(self)

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

    def list_models(self, handler: BaseHTTPRequestHandler) -> None:
        """The list of models: llama.cpp and vLLM give their context length."""
        said: Body = {"id": "small", "object": "model"}
        if self.context and self.mode == "llama.cpp":
            said["meta"] = {"n_ctx": self.context}
        if self.context and self.mode == "vllm":
            said["max_model_len"] = self.context
        _send(handler, 200, {"object": "list", "data": [said]})

    def answer(self, handler: BaseHTTPRequestHandler) -> None:  # noqa: PLR0911, PLR0912 - one a way to fail
        """One request, answered as the scenario wants."""
        raw = handler.rfile.read(int(handler.headers.get("Content-Length", 0)))
        request = json.loads(raw)
        self.requests.append(request)
        time.sleep(self.delay)
        self.answering.wait()
        text = paper_of(request)
        scenario = next((s for t, s in self.by_title.items() if t in raw.decode()), self.scenario)
        if scenario in STATUS and (text or scenario != "422"):
            status, headers = STATUS[scenario]
            return _send(handler, status, {"error": {"message": f"scenario {scenario}"}}, headers)
        if scenario in SLOW and text:
            return self._be_slow(handler, scenario)
        if self.streams == "refused" and "stream" in request:
            return _send(handler, 400, _error("'stream' is not supported by this server"))
        if self.streams == "no options" and "stream_options" in request:
            return _send(handler, 422, {"detail": "Unexpected keys in the request: stream_options"})
        if self.mode == "unknown" and set(request) - {"model", "messages", "stream"}:
            return _send(handler, 422, {"detail": "Unexpected keys in the request"})
        wanted = request.get("response_format", {}).get("type", "")
        if self.mode == "object" and wanted == "json_schema":
            return _send(handler, 400, {"error": {"message": "json_schema is not supported"}})
        tokens = sum(len(message["content"]) for message in request["messages"]) // 4
        for rule in RULES.get(self.mode, (_json_is_named,)):
            if refusal := rule(request, tokens, self.context):
                return _send(handler, 400, refusal)
        if scenario == "redirect":
            return _send(handler, 307, {}, {"Location": f"{self.url}/elsewhere"})
        if text and scenario in BODIES:
            return _send(handler, 200, BODIES[scenario])
        if self.mode == "ollama" and self.context:
            tokens = min(tokens, self.context)  # cuts off what does not fit, and says nothing
        if text and scenario in MESSAGES:
            message = MESSAGES[scenario](text)
        else:
            message = {"content": self._content(request, scenario, text, wanted)}
        most, finish = request.get("max_tokens", self.own_limit) * 4, "stop"
        if text and self.own_limit and len(str(message.get("content"))) > most:
            message, finish = {"content": str(message["content"])[:most]}, "length"
        choice = {"index": 0, "finish_reason": finish, "message": {"role": "assistant"} | message}
        usage = {"prompt_tokens": tokens, "completion_tokens": len(str(message)) // 4}
        head = {"id": "chatcmpl-1", "object": "chat.completion", "created": 1}
        body = head | {"model": request["model"], "choices": [choice], "usage": usage}
        if request.get("stream") and self.streams != "ignored":
            head |= {"model": request["model"]}
            return self._stream(handler, head, message, usage, finish)
        return _send(handler, 200, body)

    def _stream(
        self, handler: BaseHTTPRequestHandler, head: Body, message: Body, usage: Body, finish: str
    ) -> None:
        """The message in pieces, as server-sent events, as `streams` says."""
        handler.send_response(200)
        handler.send_header("Content-Type", "text/event-stream; charset=utf-8")
        handler.send_header("Connection", "close")
        handler.end_headers()
        handler.close_connection = True
        deltas = [
            {name: part}
            for name, text in message.items()
            for part in (_pieces(text) if isinstance(text, str) else [text])
        ]
        half = len(deltas) // 2
        try:
            for number, delta in enumerate(deltas):
                if number == half and self.streams in {"cut", "error", "hangs"}:
                    if self.streams == "error":
                        _event(handler, {"error": {"message": "the GPU fell off", "code": 500}})
                    if self.streams == "hangs":
                        time.sleep(FOREVER)
                    return
                if self.streams == "comments":
                    handler.wfile.write(b": still here\n\n")
                choice = {"index": 0, "delta": delta, "finish_reason": None}
                _event(handler, head | {"object": "chat.completion.chunk", "choices": [choice]})
                self.pieces += 1
                time.sleep(self.pause)
            last = {"index": 0, "delta": {}, "finish_reason": finish}
            _event(handler, head | {"choices": [last]})
            _event(handler, head | {"choices": [], "usage": usage})
            handler.wfile.write(b"data: [DONE]\n\n")
        except ConnectionError:
            self.left.set()

    def _content(self, request: Body, scenario: str, text: str, wanted: str) -> str:
        if not text:  # a probe
            if wanted == "json_schema" and self.mode in ENFORCE:
                schema = request["response_format"]["json_schema"]["schema"]
                return json.dumps(_instance(schema, schema))
            if wanted == "json_object" and self.mode in {*ENFORCE, "object", "dashscope"}:
                return '{"pruner": "It removes tokens."}'
            return "A pruner removes what is not needed."
        if self.given:
            return self.given
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
        time.sleep(FOREVER)
        handler.close_connection = True


def _pieces(text: str) -> list[str]:
    size = 40 if len(text) < 1_000_000 else 4_000
    return [text[at : at + size] for at in range(0, len(text), size)]


def _event(handler: BaseHTTPRequestHandler, body: Body) -> None:
    handler.wfile.write(f"data: {json.dumps(body)}\n\n".encode())
    handler.wfile.flush()


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
    parser.add_argument(
        "--scenario", choices=[*CONTENT, *MESSAGES, *BODIES, *STATUS, *SLOW], default="good"
    )
    parser.add_argument("--mode", choices=MODES, default="schema")
    parser.add_argument("--context", type=int, default=0, help="tokens")
    parser.add_argument("--delay", type=float, default=0.0)
    options = parser.parse_args()
    started = OpenAIServer(
        options.scenario, mode=options.mode, delay=options.delay, context=options.context
    ).start(options.port)
    print(f"OPENAI_BASE_URL={started.url}", flush=True)
    threading.Event().wait()
