"""One question to an OpenAI-compatible server, and its answer as text, or a reason in words.

Only `model`, `messages` and, where the server was seen to understand it, `response_format` are
sent: some servers answer 422 to any other field. Answers are read as bytes, capped in size and
in time; nothing the server sends is trusted before `webapp.summaries.schema` has read it.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import httpx
from django.conf import settings

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

    @staticmethod
    def configured() -> Server | None:
        """The server of the settings, or None where no model is configured."""
        if not settings.SUMMARY_MODEL:
            return None
        return Server(settings.OPENAI_BASE_URL, settings.SUMMARY_MODEL, settings.OPENAI_API_KEY)

    def ask(
        self, messages: Sequence[Message], response_format: dict[str, Any] | None = None
    ) -> Reply:
        """One answer; raises RefusedError, BusyError, or ModelError for one that cannot be read."""
        question: dict[str, Any] = {"model": self.model, "messages": list(messages)}
        if response_format:
            question["response_format"] = response_format
        deadline = Deadline(SECONDS)
        try:
            with (
                deadline,
                httpx.Client(timeout=SILENCE, follow_redirects=True) as client,
                client.stream(
                    "POST",
                    f"{self.base_url.rstrip('/')}/chat/completions",
                    json=question,
                    headers={"Authorization": f"Bearer {self.key or 'none'}"},
                    extensions={"trace": deadline.watch},
                ) as response,
            ):
                body = _capped_body(response)
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            if not deadline.passed:
                raise _broken_off(error) from error
        if deadline.passed:
            raise BusyError(f"the model's answer did not end within {SECONDS} s")
        if not response.is_success:
            raise _status_error(response.status_code, response.headers, _message(body))
        return _read_reply(body)


def _capped_body(response: httpx.Response) -> bytes:
    body = bytearray()
    for chunk in response.iter_bytes(65536):
        body += chunk
        if len(body) > MAX_ANSWER:
            raise ModelError(f"the answer is longer than {MAX_ANSWER // 1_000_000} MB")
    return bytes(body)


def _broken_off(error: Exception) -> BusyError:
    """What went wrong between us and the server, in words; asking again may help."""
    if isinstance(error, httpx.TimeoutException):
        return BusyError(f"the model's server did not answer for {SILENCE:.0f} s")
    if isinstance(error, httpx.ReadError | httpx.RemoteProtocolError | httpx.DecodingError):
        return BusyError(f"the model's server broke off its answer ({error})")
    return BusyError(f"the model's server cannot be reached ({error})")


def _message(body: bytes) -> str:
    """What a server says of an error, in whichever of the usual forms, else as it stands."""
    try:
        said = json.loads(body)
        said = said.get("error", said)
        return str(said["message"])
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return body.decode(errors="replace")


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
    said = " ".join(message.split())[:200]
    if status in {408, 409, 425, 429} or status >= 500:
        wait = retry_after(headers.get("retry-after") or "", MAX_WAIT)
        return BusyError(f"the model's server answered {status}: {said}", wait)
    if status in {401, 403}:
        return RefusedError(f"the model's server refused the key ({status}): {said}", status)
    if status == 404:
        return RefusedError(
            f"the model's server knows no such model or address (404): {said}", status
        )
    return RefusedError(f"the model's server did not take the request ({status}): {said}", status)
