"""One question to an OpenAI-compatible server, and its answer as text, or a reason in words.

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
from typing import Any

import httpx
from django.utils.translation import gettext as _

from webapp import connections
from webapp.env import Settings
from webapp.papers.deadline import Deadline
from webapp.papers.fetch import retry_after

MAX_ANSWER = 2_000_000  # bytes
SILENCE = 60.0  # seconds without a byte
SECONDS = 300  # from the connection to the last byte of the answer
MAX_WAIT = 6 * 3600  # seconds; what a server may ask us to wait

Message = dict[str, str]


class ModelError(Exception):
    """The server gave no usable answer; the message is for the reader of the page."""


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
    """A model's words and what they cost, in tokens as the server counted them (0: it did not)."""

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
    until: float = math.inf  # on the monotonic clock, when it has nothing more to say

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
        question: dict[str, Any] = {"model": self.model, "messages": list(messages)}
        if response_format:
            question["response_format"] = response_format
        seconds = max(0.1, min(SECONDS, self.until - time.monotonic()))
        too_slow = BusyError(f"the model's answer did not end within {seconds:.0f} s")
        with Deadline(seconds) as deadline:
            try:
                body = self._post(question, deadline, min(seconds, SILENCE))
            except (httpx.HTTPError, httpx.InvalidURL) as error:
                raise (too_slow if deadline.passed else _connection_error(error)) from error
        if deadline.passed:
            raise too_slow
        return _read_reply(body)

    def _post(self, question: dict[str, Any], deadline: Deadline, silence: float) -> bytes:
        """The body of a good answer. Raises ModelError for another, or what httpx raises."""
        body = bytearray()
        with (
            httpx.Client(timeout=silence, follow_redirects=True) as client,
            client.stream(
                "POST",
                f"{self.base_url}/chat/completions",
                json=question,
                headers={"Authorization": f"Bearer {self.key or 'none'}"},
                extensions={"trace": deadline.watch},
            ) as response,
        ):
            for chunk in response.iter_bytes(65536):
                body += chunk
                if len(body) > MAX_ANSWER:
                    raise ModelError(f"the answer is longer than {MAX_ANSWER // 1_000_000} MB")
        if not response.is_success:
            message = body.decode(errors="replace")
            if self.key:
                message = message.replace(self.key, "…")  # some repeat it
            raise _status_error(response, message)
        return bytes(body)


def _connection_error(error: Exception) -> BusyError:
    """What went wrong between us and the server, in words."""
    if isinstance(error, httpx.TimeoutException):
        return BusyError(f"the model's server did not answer for {SILENCE:.0f} s")
    return BusyError(_("the model’s server cannot be reached (%s)") % error)


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


def _status_error(response: httpx.Response, message: str) -> ModelError:
    """What an error status means, and whether asking again may help."""
    status, said = response.status_code, " ".join(message.split())[:200]
    if status in {408, 409, 425, 429} or status >= 500:
        wait = retry_after(response.headers.get("retry-after", ""), MAX_WAIT)
        busy = _("the model’s server answered %(status)d: %(said)s")
        return BusyError(busy % {"status": status, "said": said}, wait)
    words = {
        401: _("the model’s server refused the key"),
        403: _("the model’s server refused the key"),
        404: _("the model’s server knows no such model or address"),
    }
    what = words.get(status, _("the model’s server did not take the request"))
    return RefusedError(f"{what} ({status}): {said}", status)
