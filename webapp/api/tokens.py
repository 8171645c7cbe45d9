"""Creates, finds, revokes and rate-limits tokens."""

import time
from collections.abc import Sequence
from datetime import timedelta
from secrets import token_urlsafe

from django.contrib.auth.models import User
from django.db.models import F
from django.utils import timezone
from django.utils.translation import gettext as _

from webapp.api.models import Token
from webapp.readers.links import hashed, page_address

PREFIX = "assay_"  # so that a leaked token can be recognised
A_MINUTE = 60  # requests with a token
SCOPES = {"runs": "request and cancel runs", "library": "read and change the library"}
MAX_TOKENS = 20  # tokens per reader
LIFETIMES = (30, 90, 365)  # days that a reader may choose from, or never
DAYS = 90  # what is chosen unless the reader says otherwise


class TokenRefusedError(Exception):
    """A token cannot be created; the message tells the reader why and what to do."""


class ExpiredError(Exception):
    """A token has expired; the message says when, and where to create another."""


def make(
    reader: User, name: str, scopes: Sequence[str] = ("runs",), days: int | None = DAYS
) -> str:
    """A new token of `reader`, of which only the hash is stored; None of `days` is for ever.

    Raises TokenRefusedError.
    """
    if not scopes:
        raise TokenRefusedError(_("Choose what the token may do."))
    if Token.objects.filter(reader=reader).count() >= MAX_TOKENS:
        raise TokenRefusedError(
            _("The limit is %d tokens. Revoke one that you do not use.") % MAX_TOKENS
        )
    token = PREFIX + token_urlsafe(32)
    Token.objects.create(
        reader=reader,
        name=name.strip()[:64] or "token",
        token_hash=hashed(token),
        scopes=[scope for scope in SCOPES if scope in scopes],
        expires_at=timezone.now() + timedelta(days=days) if days else None,
    )
    return token


def find(token: str) -> Token | None:
    """The row of a token; None if it is unknown or its reader inactive. Raises ExpiredError."""
    tokens = Token.objects.select_related("reader")
    found = tokens.filter(token_hash=hashed(token), reader__is_active=True).first()
    if found and found.has_expired:
        raise ExpiredError(
            f"This token expired on {found.expires_at:%Y-%m-%d}: create another at "
            f"{page_address('api:tokens')}"
        )
    return found


def revoke(reader: User, pk: int) -> bool:
    """Revoke a token of `reader`; False if there is none."""
    return Token.objects.filter(reader=reader, pk=pk).delete()[0] > 0


def spend(token: Token) -> bool:
    """Count a request; False if the minute's limit is reached. Safe for concurrent requests."""
    minute = int(time.time()) // 60
    row, now = Token.objects.filter(pk=token.pk), timezone.now()
    if row.exclude(minute=minute).update(minute=minute, requests=1, used_at=now):
        return True
    left = row.filter(minute=minute, requests__lt=A_MINUTE)
    return left.update(requests=F("requests") + 1, used_at=now) > 0
