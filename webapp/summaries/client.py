"""One question to an OpenAI-compatible server: its answer as text, or the reason for a failure.

Answers are streamed where a server can, so that a silence is one and an abandoned answer ends.
Only `model`, `messages`, `stream` and, where the server was seen to understand it,
`response_format` are sent: some servers answer 422 to any other field, and are then asked without
it. Answers are capped in size and in time; nothing the server sends is trusted before
`webapp.summaries.schema` has read it.
"""

from __future__ import annotations

import json
import math
import re
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import httpx2
from django.conf import settings
from django.utils.translation import gettext as _

from webapp.core import connections
from webapp.env import Settings
from webapp.papers.fetch import reason_of, retry_after

from .timeouts import AnswerTimeouts, count_bytes

if TYPE_CHECKING:
    from openai import APIStatusError, OpenAI

MAX_ANSWER = 2_000_000  # characters
MAX_RECEIVED = 40_000_000  # bytes: in a stream each token comes with some two hundred of them
CONNECT = 10.0  # seconds to reach a server
TEMPERATURE = 0.2  # a report wants no fancy; at 0 small models repeat themselves
LEAST_CONTEXT = 512  # tokens
MAX_WAIT = 6 * 3600  # seconds; what a server may ask us to wait

Message = dict[str, str]
# The parts of a message that are the answer; others are reasoning, images, calls of tools.
_ANSWERS = frozenset({"text", "output_text"})
# Statuses of errors that come without one.
_KINDS = (
    (re.compile(r"rate.?limit|too many requests|throttl|quota"), 429),
    (re.compile(r"overload|unavailable|loading|timeout|timed out|capacity|server_error"), 503),
    (re.compile(r"api.?key|unauthori[sz]ed|authentication"), 401),
    (re.compile(r"not.found|no such model|does not exist"), 404),
    (re.compile(r"invalid|badrequest|bad.request|unsupported|context"), 400),
)
_WAIT = re.compile(
    r"(?:try again|retry) (?:in|after) (?:(?P<minutes>\d{1,3})m)?(?P<seconds>\d{1,5}(?:\.\d+)?) ?s",
    re.IGNORECASE,
)
_LOADS = re.compile(r"loading|starting up|not (?:yet )?ready", re.IGNORECASE)
_TOO_LONG = re.compile(
    r"context.?(?:length|size|window)|exceed_context|maximum (?:context|input|prompt)"
    r"|(?:prompt|input|request)\S* (?:is |are )?too (?:long|large)|range of input length"
    r"|longer than the model|too many (?:input )?tokens",
    re.IGNORECASE,
)
_TOKENS = re.compile(r"(?<![\d.,])(?:\d{3,8}|\d{1,3}(?:,\d{3})+)(?![\d.]*\d)")


class ModelError(Exception):
    """The server gave no usable answer; the message is shown on the paper's page."""


class RefusedError(ModelError):
    """Asking again will not help: wrong key, unknown model, a request it does not take."""

    def __init__(self, message: str, status: int) -> None:
        super().__init__(message)
        self.status = status


class TooLongError(RefusedError):
    """The prompt has more tokens than the model takes; `share` of it would fit."""

    def __init__(self, message: str, status: int, share: float) -> None:
        super().__init__(message, status)
        self.share = share


class BusyError(ModelError):
    """Asking later may help; `wait` is how long the server wants us to, in seconds."""

    def __init__(self, message: str, wait: float | None = None) -> None:
        super().__init__(message)
        self.wait = wait


class AwayError(BusyError):
    """Nothing was asked: the server is not there, or still loads its model. It costs nothing."""


@dataclass(frozen=True)
class Reply:
    """A model's answer and its cost in tokens as the server counted them (0: it did not)."""

    text: str
    tokens_in: int
    tokens_out: int
    cut: bool  # the server stopped at its length limit


@dataclass(frozen=True)
class ServerProfile:
    """The figures that a server gives of itself; None if it gives none."""

    context: int | None = None  # tokens that prompt and answer share
    takes_bounds: bool = False  # lengths of texts and lists in a schema
    slots: int | None = None  # requests at once; None: as many as the settings allow


@dataclass(frozen=True)
class Server:
    """A model and the address of its server."""

    base_url: str
    model: str
    key: str
    until: float = math.inf  # deadline for its answers, on the monotonic clock
    most_tokens: int = 0  # of an answer; 0: the server's own limit
    before_request: Callable[[], None] = field(default=lambda: None, compare=False)

    @staticmethod
    def from_settings(connected: Settings) -> Server:
        """The server that some settings name."""
        key = connected.openai_api_key.get_secret_value()
        return Server(connected.openai_base_url, connected.summary_model, key)

    @staticmethod
    def configured() -> Server | None:
        """Return the connected server, or None if no model is connected."""
        server = Server.from_settings(connections.current())
        return server if server.model else None

    def ask(
        self,
        messages: Sequence[Message],
        response_format: dict[str, Any] | None = None,
        on_progress: Callable[[int], None] = lambda _: None,
    ) -> Reply:
        """One answer; raises RefusedError, BusyError, or ModelError for one that cannot be read.

        `on_progress` is called for each piece of a streamed answer (about one a token) with the
        number so far; what it raises ends the answer, at the server too.
        """
        extra: dict[str, Any] = {"response_format": response_format} if response_format else {}
        if self.most_tokens:
            extra |= {"max_tokens": self.most_tokens, "temperature": TEMPERATURE}
        # In the first of the ways that the server does not refuse.
        ways = _WAYS[_refused_by.get(self.base_url, 0) :]
        for way in ways:
            try:
                reply = self._ask(messages, extra | way, on_progress)
            except TooLongError:
                raise
            except RefusedError as error:
                # A server may have refused the stream rather than the rest of the request.
                is_about_field = error.status == 422 or _FIELD.search(str(error).lower())
                if error.status not in {400, 422} or way is ways[-1] or not is_about_field:
                    raise
            else:
                _refused_by[self.base_url] = _WAYS.index(way)
                return reply
        raise AssertionError("the last way returns or raises")

    @property
    def is_here(self) -> bool:
        """True if it runs on this machine, beside the site."""
        host = urlsplit(self.base_url).hostname or ""
        return host in {"localhost", "::1"} or host.startswith("127.")

    def profile(self) -> ServerProfile:
        """Return its context and slots: llama.cpp `meta.n_ctx`, vLLM `max_model_len`.

        Both take `max_tokens` and `temperature`, and vLLM takes many requests at once.
        """
        try:
            listed = self._get(f"{self.base_url}/models")["data"]
            model = next((model for model in listed if model["id"] == self.model), listed[0])
            if max_model_len := _count(model.get("max_model_len")):
                return ServerProfile(max_model_len if max_model_len >= LEAST_CONTEXT else None)
            context = _count((model.get("meta") or {}).get("n_ctx"))
        except _UNUSABLE_ANSWER:
            return ServerProfile(slots=1 if self.is_here else None)
        if context < LEAST_CONTEXT:
            return ServerProfile(slots=1 if self.is_here else None)
        return ServerProfile(context, takes_bounds=True, slots=self._slots())

    def _slots(self) -> int:
        """The requests that llama.cpp takes at once."""
        try:
            root = self.base_url.removesuffix("/v1")
            return max(_count(self._get(f"{root}/props")["total_slots"]), 1)
        except _UNUSABLE_ANSWER:
            return 1

    def _get(self, address: str) -> Any:
        """Return the answer to a GET. Raises one of _UNUSABLE_ANSWER."""
        bearer = {"Authorization": f"Bearer {self.key}"} if self.key else {}
        try:
            answer = httpx2.get(address, headers=bearer, timeout=CONNECT)
        except (httpx2.HTTPError, httpx2.InvalidURL) as error:
            raise OSError(str(error)) from error
        return answer.json() if len(answer.content) < MAX_ANSWER else None

    def _ask(
        self, messages: Sequence[Message], extra: dict[str, Any], on_progress: Callable[[int], None]
    ) -> Reply:
        self.before_request()
        if (self.base_url, self.model) in _no_system:
            messages = _without_system(messages)
        # openai takes half a second to import, and most processes never ask a model.
        import openai  # noqa: PLC0415

        seconds = max(0.1, min(settings.SUMMARY_SECONDS, self.until - time.monotonic()))
        too_slow = BusyError(f"the model's answer did not end within {seconds:.0f} s")
        characters = sum(len(message["content"]) for message in messages)
        with AnswerTimeouts(seconds, settings.SUMMARY_SILENCE, characters) as timeouts:
            try:
                with self._open(timeouts) as client:
                    answer, headers = _answer(client, self.model, messages, extra, on_progress)
            except (openai.OpenAIError, httpx2.HTTPError, httpx2.InvalidURL, BusyError) as error:
                if timeouts.passed:
                    raise too_slow from error
                if timeouts.was_silent:
                    raise _silent(timeouts) from error
                if isinstance(error, BusyError):
                    raise
                reported = _model_error(error, self.key, timeouts)
                has_system = any(message["role"] == "system" for message in messages)
                if not (has_system and _NO_SYSTEM.search(str(reported))):
                    raise reported from error
                answer = None
        if answer is None:
            _no_system.add((self.base_url, self.model))
            return self._ask(messages, extra, on_progress)
        if timeouts.passed:
            raise too_slow
        if timeouts.was_silent:
            raise _silent(timeouts)
        return _read_reply(answer, headers)

    def _open(self, timeouts: AnswerTimeouts) -> OpenAI:
        import openai  # noqa: PLC0415 - as above

        too_long = ModelError(f"the answer is longer than {MAX_ANSWER // 1_000_000} MB")

        def watch(request: httpx2.Request) -> None:
            request.extensions["trace"] = timeouts.watch

        def count(response: httpx2.Response) -> None:
            response.stream = count_bytes(response.stream, timeouts, MAX_RECEIVED, too_long)

        return openai.OpenAI(
            # Another address would be sent the paper and the key: it is for the operator to enter.
            http_client=openai.DefaultHttpxClient(
                event_hooks={"request": [watch], "response": [count]}, follow_redirects=False
            ),
            base_url=self.base_url,
            api_key=self.key or "none",
            default_headers={"Accept-Encoding": "identity"},  # so that the cap is of what is read
            timeout=httpx2.Timeout(timeouts.seconds + 1, connect=min(CONNECT, timeouts.seconds)),
            max_retries=0,  # the database decides when to ask again
        )


_UNUSABLE_ANSWER = (OSError, ValueError, LookupError, TypeError, AttributeError)
# Request options, the best first: some servers refuse options, or streams.
_WAYS: tuple[dict[str, Any], ...] = (
    {"stream": True, "stream_options": {"include_usage": True}},
    {"stream": True},
    {},
)
_refused_by: dict[str, int] = {}  # the ways that a server has refused, by its address
# Models without a system role (Gemma 2 and 3 on several servers), by address and name.
_no_system: set[tuple[str, str]] = set()
_NO_SYSTEM = re.compile(
    r"(?:system|developer) (?:role|instruction|message|prompt)s? (?:is |are )?not "
    r"(?:supported|enabled|allowed)|does not support (?:the )?system|only user and assistant roles",
    re.IGNORECASE,
)
_FIELD = re.compile(r"stream|un(?:recogni[sz]ed|known|expected|supported)|extra|not permitted")


def _silent(timeouts: AnswerTimeouts) -> BusyError:
    return BusyError(f"the model's server did not answer for {timeouts.silence:.0f} s")


def _answer(
    client: OpenAI,
    model: str,
    messages: Sequence[Message],
    extra: dict[str, Any],
    on_progress: Callable[[int], None],
) -> tuple[Any, Mapping[str, str]]:
    """The answer, streamed or whole, in the form of a whole one, and its headers."""
    create: Any = client.chat.completions.with_streaming_response.create
    with create(model=model, messages=list(messages), **extra) as response:
        if "event-stream" in response.headers.get("content-type", ""):
            return _joined_stream(response.parse(), on_progress), response.headers
        body = bytearray()
        for chunk in response.iter_bytes(65536):
            body += chunk
            if len(body) > MAX_ANSWER:
                raise ModelError(f"the answer is longer than {MAX_ANSWER // 1_000_000} MB")
        try:
            return json.loads(bytes(body)), response.headers
        except (ValueError, RecursionError) as error:
            raise _no_completion() from error


def _joined_stream(chunks: Any, on_progress: Callable[[int], None]) -> Any:
    """The answer that the chunks of a stream make up. Raises BusyError if it breaks off."""
    texts: dict[str, list[str]] = {"content": [], "reasoning_content": [], "refusal": []}
    finish, usage, length, count = None, None, 0, 0
    try:
        for chunk in chunks:
            piece = chunk.model_dump()
            usage = piece.get("usage") or usage
            for choice in (piece.get("choices") or [])[:1]:
                delta = choice.get("delta") or {}
                contents = {
                    "content": _joined(delta.get("content")),
                    "reasoning_content": _joined(
                        delta.get("reasoning_content") or delta.get("reasoning")
                    ),
                    "refusal": delta.get("refusal") or "",
                }
                finish = choice.get("finish_reason") or finish
                for name, text in contents.items():
                    texts[name].append(text)
                    length += len(text)
                    count += bool(text)
            if length > MAX_ANSWER:
                raise ModelError(f"the answer is longer than {MAX_ANSWER // 1_000_000} MB")
            on_progress(count)
    except (ValueError, TypeError, AttributeError, RecursionError) as error:
        raise _no_completion() from error
    message = {name: "".join(parts) for name, parts in texts.items()}
    if finish is None and not message["content"].rstrip("` \n").endswith("}"):
        raise BusyError("the model's server broke off its answer")
    usage = usage or {"completion_tokens": count}
    return {"choices": [{"message": message, "finish_reason": finish}], "usage": usage}


def _no_completion() -> ModelError:
    return ModelError("the server's answer is not a chat completion")


def _model_error(error: Exception, key: str, timeouts: AnswerTimeouts) -> ModelError:
    """The error for a page: what went wrong, and whether asking again may help."""
    import openai  # noqa: PLC0415 - as above

    cause = error.__cause__ if isinstance(error, openai.APIConnectionError) else error
    unreachable = _("the model’s server cannot be reached (%s)") % reason_of(cause or error)
    if isinstance(cause, httpx2.ConnectError | httpx2.ConnectTimeout):
        return AwayError(unreachable)
    if isinstance(error, openai.APITimeoutError | httpx2.TimeoutException):
        return _silent(timeouts)
    if isinstance(error, httpx2.HTTPError):
        return BusyError(f"the model's server broke off its answer ({error})")
    if isinstance(error, openai.APIStatusError):
        return _refusal(error, key)
    if isinstance(error, openai.APIConnectionError):
        return BusyError(unreachable)
    body = error.body if isinstance(error, openai.APIError) else None  # within a stream
    within = body if isinstance(body, dict) else {"message": str(body)}
    reported = _error_in({"error": within}, {}) if body else None
    return reported or ModelError(f"the model's client failed: {error}")


def _refusal(error: APIStatusError, key: str) -> ModelError:
    """The error for a status other than 200."""
    message = _message_in(error.body) or _message_in(_body_text(error)) or error.message
    message = message.replace(key, "…") if key else message  # some repeat it
    if error.response.is_redirect:
        to = error.response.headers["location"][:200]
        reason = _("the model’s server redirects to %s; enter the address that answers itself")
        return RefusedError(reason % to, error.status_code)
    return _status_error(error.status_code, error.response.headers, message, error.body)


def _body_text(error: APIStatusError) -> str:
    try:
        return error.response.text
    except Exception:  # a body that breaks off says nothing
        return ""


def _message_in(body: object) -> str:
    """The text of an error: a bare string, or that of `message`, `error` or `detail`, or a list."""
    if isinstance(body, str):
        text = body.strip()
        if text[:1] in {"{", "["}:
            with suppress(ValueError, RecursionError):
                return _message_in(json.loads(text)) or text
        return "" if text.startswith("<") else text
    if isinstance(body, list):
        return "; ".join(filter(None, map(_message_in, body[:4])))
    if not isinstance(body, dict):
        return ""
    if "msg" in body and "loc" in body:  # as FastAPI lists what is wrong
        place = ".".join(map(str, body["loc"])) if isinstance(body["loc"], list) else body["loc"]
        return f"{place}: {body['msg']}"
    metadata = body.get("metadata")
    raw = _message_in(metadata.get("raw")) if isinstance(metadata, dict) else ""
    texts = (_message_in(body.get(name)) for name in ("message", "error", "detail", "errors"))
    text = next(filter(None, texts), "")
    return f"{text} ({raw})" if raw and raw not in text else text


def _without_system(messages: Sequence[Message]) -> list[Message]:
    """The messages with the instructions in the first question: some models have no system role."""
    system = "\n\n".join(each["content"] for each in messages if each["role"] == "system")
    others = [each for each in messages if each["role"] != "system"]
    if not system or not others:
        return list(messages)
    return [others[0] | {"content": f"{system}\n\n{others[0]['content']}"}, *others[1:]]


def _read_reply(answer: Any, headers: Mapping[str, str]) -> Reply:
    try:
        if error := _error_in(answer, headers):
            raise error
        choice = answer["choices"][0]
        message, usage = choice["message"], answer.get("usage") or {}
        if refusal := message.get("refusal"):
            raise ModelError(f"the model refuses: {_short(str(refusal))}")
        text = _joined(message.get("content"))
        if not text.strip():  # some servers take a whole answer for reasoning
            text = _joined(message.get("reasoning_content") or message.get("reasoning"))
        if choice.get("finish_reason") == "content_filter":
            raise ModelError("the server's content filter withheld the answer")
        return Reply(
            text=text,
            tokens_in=_count(usage.get("prompt_tokens")),
            tokens_out=_count(usage.get("completion_tokens")),
            cut=choice.get("finish_reason") == "length",
        )
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        raise _no_completion() from error


def _joined(content: Any) -> str:
    """A message's content as one text; of a list of parts those that are the answer.

    Raises TypeError for content of another kind.
    """
    if content is None or isinstance(content, str):
        return content or ""
    if not isinstance(content, list):
        raise TypeError("content is not a text")
    parts = [part if isinstance(part, dict) else {"text": part} for part in content]
    texts = [part.get("text") for part in parts if part.get("type", "text") in _ANSWERS]
    return "".join(text for text in texts if isinstance(text, str))


def _error_in(answer: Any, headers: Mapping[str, str]) -> ModelError | None:
    """The error that a server reports with status 200: of itself, or of one that it asked."""
    choices = answer.get("choices")
    failed = choices[0].get("error") if isinstance(choices, list) and choices else None
    error = answer.get("error") or failed
    if not error and choices:
        return None
    if not error and not {"message", "detail"} & answer.keys():
        return None
    error = error or answer
    if not isinstance(error, dict):
        error = {"message": error}
    message = _message_in(error) or json.dumps(error)
    code = str(error.get("code") or error.get("status") or "")
    if code.isdigit():
        status = int(code)
    else:
        kind = f"{code} {error.get('type') or ''} {message}".lower()
        status = next((number for pattern, number in _KINDS if pattern.search(kind)), 503)
    return _status_error(status, headers, message, error)


def _count(value: object) -> int:
    return value if isinstance(value, int) and 0 <= value < 10**8 else 0


def _short(text: str) -> str:
    return " ".join(text.split())[:200]


def _status_error(
    status: int, headers: Mapping[str, str], message: str, body: object = None
) -> ModelError:
    if status in {400, 413, 422, 500} and (share := _fitting_share(message, body)):
        return TooLongError(_short(message), status, share)
    if status in {408, 409, 425, 429} or status >= 500:
        wait = retry_after(headers.get("retry-after") or "", MAX_WAIT)
        if wait is None and (match := _WAIT.search(message)):
            wait = min(float(match["seconds"]) + 60 * float(match["minutes"] or 0), MAX_WAIT)
        if status == 503 and wait is None and _LOADS.search(message):
            return AwayError(_("the model’s server still loads its model"))
        busy = _("the model’s server answered %(status)d: %(message)s")
        return BusyError(busy % {"status": status, "message": _short(message)}, wait)
    reasons = {
        401: _("the model’s server refused the key"),
        403: _("the model’s server refused the key"),
        404: _("the model’s server knows no such model or address"),
    }
    what = reasons.get(status, _("the model’s server rejected the request"))
    return RefusedError(f"{what} ({status}): {_short(message)}", status)


def _fitting_share(message: str, body: object) -> float | None:
    """Return the share of a prompt that fits, by the error of one that is too long.

    OpenAI, vLLM and llama.cpp name both numbers of tokens, DashScope only the most that it takes.
    None for another error.
    """
    text = f"{message} {json.dumps(body, default=str)}"[:4_000]
    if not _TOO_LONG.search(text):
        return None
    numbers = (int(number.replace(",", "")) for number in _TOKENS.findall(text))
    tokens = [number for number in numbers if number >= LEAST_CONTEXT]  # others are statuses
    limit, size = min(tokens, default=0), max(tokens, default=0)
    return limit / size if 0 < limit < size else 0.5
