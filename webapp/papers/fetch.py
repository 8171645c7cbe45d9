"""One polite, bounded GET to arXiv: rate limit, deadline, body cap, same host only, retries.

Every request of Assay to arXiv goes through `get`.
"""

import random
import re
import time
import zlib
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from urllib.parse import urljoin, urlsplit

import httpx2
from django.conf import settings
from django.utils.http import parse_http_date_safe

from webapp.papers import limiter
from webapp.papers.deadline import Deadline
from webapp.papers.formats import error_title

MAX_BODY = 20 * 1024 * 1024  # bytes; the largest real answer, a page of 2000 papers, has about 6 MB
TOTAL_SECONDS = 60.0  # for one request from its start to the last byte
TIMEOUT = httpx2.Timeout(10.0, read=20.0)
MAX_REDIRECTS = 3
ATTEMPTS = 3
MOST_WAIT = 120.0  # seconds to wait for the slot before giving up
MAX_RETRY_AFTER = 3600.0  # seconds; longer waits are cut to this
_MAX_BACKOFF = 60.0
_TRY_AGAIN = {429, 500, 502, 503, 504}


class FetchError(Exception):
    """No usable answer from arXiv; the message says why, for the audit."""


class OutOfReachError(FetchError):
    """No answer at all: no connection, or none in time."""


class AskedToWaitError(FetchError):
    """arXiv, or the rate limit, asks for a longer wait than MOST_WAIT."""


class BadAnswerError(FetchError):
    """An unusable answer: an error status, another host, too large, an unknown encoding."""


@dataclass(frozen=True)
class HttpAnswer:
    """A whole answer; `get` returns status 200 with a body, or 304 without."""

    url: str
    status: int
    headers: Mapping[str, str]  # case-insensitive
    body: bytes


def get(
    url: str, headers: Mapping[str, str] | None = None, check: Callable[[bytes], None] | None = None
) -> HttpAnswer:
    """GET `url` within the rate limit, in up to ATTEMPTS attempts.

    A failure that may be temporary pauses all requests to arXiv, for as long as Retry-After says
    (seconds or a date), else with exponential back-off and jitter. `check` may raise FetchError for
    a bad body, which is retried in the same way.
    Raises OutOfReachError, AskedToWaitError or BadAnswerError.
    """
    for attempt in range(ATTEMPTS):
        last = attempt == ATTEMPTS - 1
        try:
            answer = _follow(url, dict(headers or {}))
        except limiter.SlotTakenError as busy:
            raise AskedToWaitError(f"next request to arXiv in {busy.seconds:.0f} s") from busy
        except OutOfReachError:
            # A third attempt would keep the first page of a new site waiting.
            if attempt >= 1:
                raise
            limiter.pause(_backoff(attempt))
            continue
        if answer.status in _TRY_AGAIN:
            wait = retry_after(answer.headers.get("retry-after", ""))
            limiter.pause(_backoff(attempt) if wait is None else wait)
            if last or (wait or 0.0) > MOST_WAIT:
                raise _refusal(answer, wait)
            continue
        if answer.status not in {200, 304}:
            raise _refusal(answer, None)
        if answer.status == 200 and check is not None:
            try:
                check(answer.body)
            except FetchError:
                if last:
                    raise
                limiter.pause(_backoff(attempt))
                continue
        return answer
    raise AssertionError("every last attempt returns or raises")


def _follow(url: str, headers: dict[str, str]) -> HttpAnswer:
    """Follow redirects, none of which may leave the host."""
    for _ in range(MAX_REDIRECTS + 1):
        with limiter.slot(MOST_WAIT):
            answer = _request(url, headers)
        if answer.status not in {301, 302, 303, 307, 308}:
            return answer
        target = urljoin(url, answer.headers.get("location", ""))
        if not _same_place(url, target):
            raise BadAnswerError(f"{_host(url)} redirects to another host, {_host(target)}")
        url = target
    raise BadAnswerError(f"{_host(url)} redirects more than {MAX_REDIRECTS} times")


def _request(url: str, headers: dict[str, str]) -> HttpAnswer:
    # arXiv asks robots for a name and a contact.
    contact = settings.ARXIV_CONTACT or settings.BASE_URL or "self-hosted"
    agent = f"Assay/0.1 (arXiv digest; {contact})"
    sent = {"user-agent": agent, "accept-encoding": "gzip", **headers}
    try:
        with (
            Deadline(TOTAL_SECONDS) as deadline,
            httpx2.Client(timeout=TIMEOUT, follow_redirects=False) as client,
            client.stream(
                "GET", url, headers=sent, extensions={"trace": deadline.watch}
            ) as response,
        ):
            answer = HttpAnswer(url, response.status_code, response.headers, _read(response, url))
    except (httpx2.HTTPError, httpx2.InvalidURL, httpx2.StreamError) as error:
        if not deadline.passed:
            is_late = isinstance(error, httpx2.TimeoutException)
            unreachable = f"cannot be reached: {reason_of(error)}"
            reason = "did not answer in time" if is_late else unreachable
            raise OutOfReachError(f"{_host(url)} {reason}") from error
    if deadline.passed:
        raise OutOfReachError(f"{_host(url)} took longer than {TOTAL_SECONDS:.0f} s")
    return answer


def _read(response: httpx2.Response, url: str) -> bytes:
    """The body, decompressed; refused as soon as it exceeds MAX_BODY either way."""
    too_large = BadAnswerError(f"{_host(url)} sent more than {MAX_BODY // 2**20} MB")
    with suppress(ValueError):
        if int(response.headers.get("content-length", "0")) > MAX_BODY:
            raise too_large
    encoding = response.headers.get("content-encoding", "identity").strip().lower()
    if encoding not in {"identity", "gzip", "x-gzip", ""}:
        raise BadAnswerError(f"{_host(url)} sent an unwanted encoding, {encoding[:40]!r}")
    unpack = zlib.decompressobj(wbits=31) if "gzip" in encoding else None
    body = bytearray()
    for chunk in response.iter_raw():
        if unpack is None:
            body += chunk
        else:
            try:
                body += unpack.decompress(chunk, MAX_BODY + 1 - len(body))
            except zlib.error as error:
                raise BadAnswerError(f"{_host(url)} sent a broken gzip body: {error}") from None
        if len(body) > MAX_BODY:
            raise too_large
    if unpack is not None and body and not unpack.eof:
        raise OutOfReachError(f"{_host(url)} stopped in the middle of its answer")
    return bytes(body)


def reason_of(error: BaseException) -> str:
    """Return the reason why a connection failed, in terms that a reader of the page can act on."""
    text = str(error)
    if "Name or service not known" in text or "name resolution" in text:
        return "its name is not found (this machine may be offline)"
    return re.sub(r"^\[Errno -?\d+\] ", "", text)


def _refusal(answer: HttpAnswer, wait: float | None) -> FetchError:
    host, status = _host(answer.url), answer.status
    if wait is not None:
        return AskedToWaitError(f"{host} asks us to wait {wait:.0f} s (HTTP {status})")
    text = error_title(answer.body)
    return BadAnswerError(f"{host} answers HTTP {status}" + (f": {text}" if text else ""))


def retry_after(value: str, most: float = MAX_RETRY_AFTER) -> float | None:
    """The seconds of a Retry-After header (seconds or a date), at most `most`; None if invalid."""
    value = value.strip()
    if value.isascii() and value.isdigit():
        return min(float(value), most)
    moment = parse_http_date_safe(value)
    return None if moment is None else min(max(moment - time.time(), 0.0), most)


def _backoff(attempt: int) -> float:
    """Seconds before the next attempt: the usual pause, doubled each time, with jitter."""
    step: float = settings.ARXIV_SECONDS * 2.0**attempt
    return min(step * random.uniform(0.5, 1.5), _MAX_BACKOFF)


def _same_place(url: str, target: str) -> bool:
    """True if a redirect stays on the host and port; only http may become https."""
    here, there = urlsplit(url), urlsplit(target)
    if here.netloc.lower() != there.netloc.lower():
        return False
    return here.scheme == there.scheme or (here.scheme, there.scheme) == ("http", "https")


def _host(url: str) -> str:
    return urlsplit(url).netloc[:120] or "nowhere"
