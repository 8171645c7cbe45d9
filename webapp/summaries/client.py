"""One question to an OpenAI-compatible server: its answer as text, or the reason for a failure.

Only `model`, `messages` and, where the server was seen to understand it, `response_format` are
sent: some servers answer 422 to any other field. Answers are read as bytes, capped in size and
in time; nothing the server sends is trusted before `webapp.summaries.schema` has read it.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Sequence
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
MAX_WAIT = 6 * 3600  # seconds; what a server may ask us to wait

Message = dict[str, str]


class ModelError(Exception):
    """The server gave no usable answer; the message is shown on the paper's page."""


class RefusedError(ModelError):
    """Asking again will not help: wrong key, unknown model, a request it does not take."""

    def __init__(self, message: str, status: int) -> None:
        super().__init__(message)
        self.status = status


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
                    body = _capped_body(client, self.model, messages, extra)
            except (openai.OpenAIError, httpx2.HTTPError, httpx2.InvalidURL) as error:
                raise (too_slow if deadline.passed else _model_error(error, self.key)) from error
        if deadline.passed:
            raise too_slow
        return _read_reply(body)

    def _open(self, deadline: Deadline, silence: float) -> OpenAI:
        import openai  # noqa: PLC0415 - as above

        def watch(request: Request) -> None:
            request.extensions["trace"] = deadline.watch

        return openai.OpenAI(
            http_client=openai.DefaultHttpxClient(event_hooks={"request": [watch]}),
            base_url=self.base_url,
            api_key=self.key or "none",
            timeout=silence,
            max_retries=0,  # the database decides when to ask again
        )


def _capped_body(
    client: OpenAI, model: str, messages: Sequence[Message], extra: dict[str, Any]
) -> bytes:
    body = bytearray()
    create: Any = client.chat.completions.with_streaming_response.create
    with create(model=model, messages=list(messages), **extra) as response:
        for chunk in response.iter_bytes(65536):
            body += chunk
            if len(body) > MAX_ANSWER:
                raise ModelError(f"the answer is longer than {MAX_ANSWER // 1_000_000} MB")
    return bytes(body)


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
        return _status_error(error.status_code, error.response.headers, message)
    return ModelError(f"the model's client failed: {error}")


def _read_reply(body: bytes) -> Reply:
    try:
        answer = json.loads(body)
        choice = answer["choices"][0]
        text = choice["message"].get("content") or ""
        usage = answer.get("usage") or {}
        if not isinstance(text, str):
            raise TypeError("content is not a text")
        return Reply(
            text=text,
            tokens_in=_count(usage.get("prompt_tokens")),
            tokens_out=_count(usage.get("completion_tokens")),
            cut=choice.get("finish_reason") == "length",
        )
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        raise ModelError("the server's answer is not a chat completion") from error


def _count(value: object) -> int:
    return value if isinstance(value, int) and 0 <= value < 10**8 else 0


def _status_error(status: int, headers: Any, message: str) -> ModelError:
    message = " ".join(message.split())[:200]
    if status in {408, 409, 425, 429} or status >= 500:
        wait = retry_after(headers.get("retry-after") or "", MAX_WAIT)
        busy = _("the model’s server answered %(status)d: %(message)s")
        return BusyError(busy % {"status": status, "message": message}, wait)
    words = {
        401: _("the model’s server refused the key"),
        403: _("the model’s server refused the key"),
        404: _("the model’s server knows no such model or address"),
    }
    what = words.get(status, _("the model’s server rejected the request"))
    return RefusedError(f"{what} ({status}): {message}", status)
