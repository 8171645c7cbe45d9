"""Limits for one reader, or one address, on what all share.

docs/security.md prints the table.

Redis counts, over all processes and machines, so that a flood of requests writes nothing to the
database. What it counts for a reader or an address begins with the first request and ends with the
limit's time. Where Redis does not answer nobody is refused: most of what is limited waits for it
anyway, and pages go on.
"""

import logging
import time
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from ipaddress import IPv6Address, ip_address, ip_network

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils.deprecation import MiddlewareMixin
from django.utils.translation import gettext as _
from django.utils.translation import gettext_noop
from redis import Redis
from redis.exceptions import RedisError

from webapp.core.durations import duration

MINUTE, HOUR, DAY = 60, 3600, 86_400
SPANS = {
    MINUTE: gettext_noop("a minute"),
    HOUR: gettext_noop("an hour"),
    DAY: gettext_noop("a day"),
}
NETWORK_BITS = 64  # of an address of IPv6: whoever has one has all of its network
# Counts ARGV[1] of at most ARGV[2] in ARGV[3] seconds: 0, or the seconds until there is room again.
COUNT = """
local used = tonumber(redis.call('GET', KEYS[1]) or 0)
if used + ARGV[1] > tonumber(ARGV[2]) then
  return math.max(redis.call('TTL', KEYS[1]), 1)
end
redis.call('INCRBY', KEYS[1], ARGV[1])
if used == 0 then
  redis.call('EXPIRE', KEYS[1], ARGV[3])
end
return 0
"""
AWAY_SECONDS = 5.0  # for which Redis is not asked again after it did not answer

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Limit:
    """A limit of so many requests in so many seconds, counted for each of `whom`."""

    what: str
    most: int
    seconds: int
    whom: str

    @property
    def span(self) -> str:
        """The seconds in words: "a minute"."""
        return SPANS[self.seconds]


LIMITS = {
    "searches": Limit(gettext_noop("searches"), 60, MINUTE, "reader or address"),
    "exports": Limit(gettext_noop("exports"), 60, HOUR, "reader or address"),
    "imports": Limit(gettext_noop("imports"), 20, HOUR, "reader"),
    "lookups": Limit(gettext_noop("papers looked up at arXiv"), 2_000, DAY, "reader"),
    "tables": Limit(gettext_noop("papers whose tables are read"), 50, DAY, "reader"),
    "summaries": Limit(gettext_noop("summaries by the model"), 30, DAY, "reader"),
    "corrections": Limit(gettext_noop("corrections"), 60, HOUR, "reader"),
    "API requests": Limit(gettext_noop("API requests"), 60, MINUTE, "token"),
    "runs": Limit(gettext_noop("requests for runs"), 60, HOUR, "reader"),
    "sign-in links": Limit(gettext_noop("requests for sign-in links"), 10, HOUR, "address"),
    "confirmations": Limit(gettext_noop("mails to confirm an address"), 5, DAY, "reader"),
    "mails now": Limit(gettext_noop("mails sent at once"), 10, DAY, "reader"),
    "mailbox": Limit(
        gettext_noop("mails to an address that nobody has confirmed"), 3, DAY, "mail address"
    ),
}


class LimitReachedError(Exception):
    """A limit is reached; the message says which, `seconds` when there is room again."""

    def __init__(self, limit: Limit, seconds: int) -> None:
        self.seconds = seconds
        most = _("The limit is %(most)s %(what)s %(span)s. Please try again in %(wait)s.")
        values = {"what": _(limit.what), "span": _(limit.span), "wait": duration(seconds)}
        super().__init__(most % (values | {"most": f"{limit.most:,}"}))


class LimitMiddleware(MiddlewareMixin):
    """Answers 429, with a sentence and Retry-After, wherever a view does not say it itself."""

    def process_exception(self, request: HttpRequest, error: Exception) -> HttpResponse | None:
        """The page that says which limit is reached; None for other errors."""
        if not isinstance(error, LimitReachedError):
            return None
        response = render(request, "429.html", {"exception": error}, status=429)
        response["Retry-After"] = str(error.seconds)
        return response


def spend(name: str, subject: str, amount: int = 1) -> None:
    """Count a subject's requests. Raises LimitReachedError, and then nothing is counted.

    `subject` is a `visitor`, or another key that represents one; "" is not counted.
    """
    limit = LIMITS[name]
    if not subject or _Away.until > time.monotonic():
        return
    given = (f"limit:{name}:{subject}", amount, limit.most, limit.seconds)
    try:
        seconds = _redis(settings.CELERY_BROKER_URL).eval(COUNT, 1, *given)
    except (RedisError, OSError) as error:
        _Away.until = time.monotonic() + AWAY_SECONDS
        log.warning("Limits are not counted, Redis does not answer: %s", error)
        return
    if seconds:
        raise LimitReachedError(limit, int(seconds))


def visitor(request: HttpRequest) -> str:
    """Whom a request is counted for: its reader, else the address it came from.

    "" if the address says nothing: that of this machine, or of a proxy that does not say for
    whom it asks. Counted as one, all behind it would be stopped by any of them.
    """
    reader = getattr(request, "auth", None) or getattr(request, "user", None)
    if reader is not None and reader.is_authenticated:
        return reader_key(reader.pk)
    return address_key(request)


def reader_key(pk: int) -> str:
    """A reader as a subject."""
    return f"reader {pk}"


def address_key(request: HttpRequest) -> str:
    """The address of a request as a subject, whoever is signed in."""
    written = request.META.get("REMOTE_ADDR", "")
    if settings.BEHIND_PROXY:  # the last is what the proxy added; the others its client wrote
        written = request.META.get("HTTP_X_FORWARDED_FOR", "").rpartition(",")[2].strip()
    try:
        address = ip_address(written)
    except ValueError:
        return ""
    if isinstance(address, IPv6Address):
        address = address.ipv4_mapped or address
    if address.is_loopback:
        return ""
    if isinstance(address, IPv6Address):
        address = ip_network((address, NETWORK_BITS), strict=False).network_address
    return f"address {address}"


def mailbox_key(address: str) -> str:
    """A mail address as a subject; Redis keeps no address of anybody."""
    return f"mailbox {sha256(address.strip().lower().encode()).hexdigest()[:32]}"


class _Away:
    until = 0.0  # time.monotonic(); until then Redis is not asked


@cache
def _redis(url: str) -> Redis:
    address = url.replace("redis+socket://", "unix://", 1)
    return Redis.from_url(address, socket_timeout=1, socket_connect_timeout=1)
