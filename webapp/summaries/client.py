"""One question to an OpenAI-compatible server: its answer as text, or the reason for a failure.

Only `model`, `messages` and, where the server was seen to understand it, `response_format` are
sent: some servers answer 422 to any other field. Answers are read as bytes, capped in size and
in time; nothing the server sends is trusted before `webapp.summaries.schema` has read it.
"""

from __future__ import annotations

import json
import math
import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from django.utils.translation import gettext as _

from webapp import connections
from webapp.env import Settings
from webapp.papers.deadline import Deadline
from webapp.papers.fetch import retry_after

if TYPE_CHECKING:
    from httpx2 import Request
    from openai import OpenAI

MAX_ANSWER = 2_000_000  # bytes
SILENCE = 60.0  # seconds without a byte
SECONDS = 300  # from the connection to the last byte of the answer
LEAST_CONTEXT = 512  # tokens
MAX_WAIT = 6 * 3600  # seconds; what a server may ask us to wait

Message = dict[str, str]
# The parts of a message that are the answer; others are reasoning, images, calls of tools.
_ANSWERS = frozenset({"text", "output_text"})
# What an error without a status means.
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


@dataclass(frozen=True)
class Reply:
    """A model's answer and its cost in tokens as the server counted them (0: it did not)."""

    text: str
    tokens_in: int
    tokens_out: int
    cut: bool  # the server stopped at its length limit


@dataclass(frozen=True)
class Server:
    """Which model is asked, and where."""

    base_url: str
    model: str
    key: str
    until: float = math.inf  # deadline for its answers, on the monotonic clock

    @staticmethod
    def of(connected: Settings) -> Server:
        """The server that some settings name."""
        key = connected.openai_api_key.get_secret_value()
        return Server(connected.openai_base_url, connected.summary_model, key)

    @staticmethod
    def configured() -> Server | None:
        """The server that is connected, or None where no model is."""
        server = Server.of(connections.current())
        return server if server.model else None

    def ask(
        self, messages: Sequence[Message], response_format: dict[str, Any] | None = None
    ) -> Reply:
        """One answer; raises RefusedError, BusyError, or ModelError for one that cannot be read."""
        # openai takes half a second to import, and most processes never ask a model.
        import httpx2  # noqa: PLC0415 - openai's own HTTP client
        import openai  # noqa: PLC0415

        extra = {"response_format": response_format} if response_format else {}
        seconds = max(0.1, min(SECONDS, self.until - time.monotonic()))
        too_slow = BusyError(f"the model's answer did not end within {seconds:.0f} s")
        with Deadline(seconds) as deadline:
            try:
                with self._open(deadline, min(seconds, SILENCE)) as client:
                    body, headers = _capped_body(client, self.model, messages, extra)
            except (openai.OpenAIError, httpx2.HTTPError, httpx2.InvalidURL) as error:
                raise (too_slow if deadline.passed else _model_error(error, self.key)) from error
        if deadline.passed:
            raise too_slow
        return _read_reply(body, headers)

    def _open(self, deadline: Deadline, silence: float) -> OpenAI:
        import openai  # noqa: PLC0415 - as above

        def watch(request: Request) -> None:
            request.extensions["trace"] = deadline.watch

        return openai.OpenAI(
            # Another address would be sent the paper and the key: it is for the operator to enter.
            http_client=openai.DefaultHttpxClient(
                event_hooks={"request": [watch]}, follow_redirects=False
            ),
            base_url=self.base_url,
            api_key=self.key or "none",
            timeout=silence,
            max_retries=0,  # the database decides when to ask again
        )


def _capped_body(
    client: OpenAI, model: str, messages: Sequence[Message], extra: dict[str, Any]
) -> tuple[bytes, Mapping[str, str]]:
    """The body and the headers of an answer."""
    body = bytearray()
    create: Any = client.chat.completions.with_streaming_response.create
    with create(model=model, messages=list(messages), **extra) as response:
        for chunk in response.iter_bytes(65536):
            body += chunk
            if len(body) > MAX_ANSWER:
                raise ModelError(f"the answer is longer than {MAX_ANSWER // 1_000_000} MB")
        return bytes(body), response.headers


def _model_error(error: Exception, key: str) -> ModelError:
    """The error for a page: what went wrong, and whether asking again may help."""
    import httpx2  # noqa: PLC0415 - as above
    import openai  # noqa: PLC0415

    if isinstance(error, openai.APITimeoutError | httpx2.TimeoutException):
        return BusyError(f"the model's server did not answer for {SILENCE:.0f} s")
    if isinstance(error, openai.APIConnectionError):
        message = _("the model’s server cannot be reached (%s)")
        return BusyError(message % (error.__cause__ or error))
    if isinstance(error, httpx2.HTTPError):
        return BusyError(f"the model's server broke off its answer ({error})")
    if isinstance(error, openai.APIStatusError):
        message = error.message.replace(key, "…") if key else error.message  # some repeat it
        if error.response.is_redirect:
            to = error.response.headers["location"][:200]
            message = _("the model’s server redirects to %s; enter the address that answers itself")
            return RefusedError(message % to, error.status_code)
        return _status_error(error.status_code, error.response.headers, message, error.body)
    return ModelError(f"the model's client failed: {error}")


def _read_reply(body: bytes, headers: Mapping[str, str]) -> Reply:
    try:
        answer = json.loads(body)
        if error := _error_in(answer, headers):
            raise error
        choice = answer["choices"][0]
        message, usage = choice["message"], answer.get("usage") or {}
        if refusal := message.get("refusal"):
            raise ModelError(f"the model refuses: {_short(str(refusal))}")
        text = _joined(message.get("content"))
        if not text.strip():  # some servers take a whole answer for reasoning
            text = _joined(message.get("reasoning_content") or message.get("reasoning"))
        if not text.strip() and choice.get("finish_reason") == "content_filter":
            raise ModelError("the server's content filter withheld the answer")
        return Reply(
            text=text,
            tokens_in=_count(usage.get("prompt_tokens")),
            tokens_out=_count(usage.get("completion_tokens")),
            cut=choice.get("finish_reason") == "length",
        )
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        raise ModelError("the server's answer is not a chat completion") from error


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
    message = str(error.get("message") or error.get("detail") or json.dumps(error))
    code = str(error.get("code") or error.get("status") or "")
    if code.isdigit():
        status = int(code)
    else:
        kind = f"{code} {error.get('type') or ''} {message}".lower()
        status = next((number for words, number in _KINDS if words.search(kind)), 503)
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
        if wait is None and (said := _WAIT.search(message)):
            wait = min(float(said["seconds"]) + 60 * float(said["minutes"] or 0), MAX_WAIT)
        busy = _("the model’s server answered %(status)d: %(message)s")
        return BusyError(busy % {"status": status, "message": _short(message)}, wait)
    words = {
        401: _("the model’s server refused the key"),
        403: _("the model’s server refused the key"),
        404: _("the model’s server knows no such model or address"),
    }
    what = words.get(status, _("the model’s server rejected the request"))
    return RefusedError(f"{what} ({status}): {_short(message)}", status)


def _fitting_share(message: str, body: object) -> float | None:
    """How much of a prompt fits a model's context, by the error of a prompt that is too long.

    OpenAI, vLLM and llama.cpp name both numbers of tokens, DashScope only the most that it takes.
    None for another error.
    """
    said = f"{message} {json.dumps(body, default=str)}"[:4_000]
    if not _TOO_LONG.search(said):
        return None
    numbers = (int(number.replace(",", "")) for number in _TOKENS.findall(said))
    tokens = [number for number in numbers if number >= LEAST_CONTEXT]  # others are statuses
    limit, asked = min(tokens, default=0), max(tokens, default=0)
    return limit / asked if 0 < limit < asked else 0.5
