"""Readers' tokens, and the requests that they authenticate."""

from collections.abc import Sequence
from datetime import timedelta
from secrets import token_urlsafe

from django.contrib.auth.models import AnonymousUser, User
from django.http import HttpRequest
from django.utils import timezone
from django.utils.translation import gettext as _
from ninja.security import HttpBearer

from webapp.api.models import Token
from webapp.api.problems import ProblemError
from webapp.core.limits import spend
from webapp.readers.links import hashed, page_address

PREFIX = "assay_"  # so that a leaked token can be recognised
SCOPES = {"runs": "request and cancel runs", "library": "read and change the library"}
MAX_TOKENS = 20  # tokens per reader
LIFETIMES = (30, 90, 365)  # days that a reader may choose from, or never
DAYS = 90  # what is chosen unless the reader says otherwise


class TokenRefusedError(Exception):
    """A token cannot be created; the message tells the reader why and what to do."""


def make(
    reader: User, name: str, scopes: Sequence[str] = ("runs",), days: int | None = DAYS
) -> str:
    """Create a token for `reader` and store its hash; it never expires if `days` is None.

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
    """Return the row of a token; None if it is unknown or its reader inactive.

    Raises ProblemError for an expired one, saying where to create another.
    """
    tokens = Token.objects.select_related("reader")
    row = tokens.filter(token_hash=hashed(token), reader__is_active=True).first()
    if row and row.has_expired:
        raise ProblemError(
            401,
            f"This token expired on {row.expires_at:%Y-%m-%d}: create another at "
            f"{page_address('api:tokens')}",
        )
    return row


def revoke(reader: User, pk: int) -> bool:
    """Revoke a token of `reader`; False if there is none."""
    return Token.objects.filter(reader=reader, pk=pk).delete()[0] > 0


class Bearer(HttpBearer):
    """Authenticates by a token that has the scope; its requests are limited by the minute."""

    def __init__(self, scope: str) -> None:
        super().__init__()
        self.scope = scope

    def authenticate(self, request: HttpRequest, token: str) -> User | None:
        """Return the reader of a valid token.

        Raises ProblemError without the scope, LimitReachedError over the limit.
        """
        row = find(token)
        if row is None:
            return None
        if self.scope not in row.scopes:
            raise ProblemError(403, f"This token does not have the scope {self.scope!r}.")
        spend("API requests", f"token {row.token_hash[:32]}")
        Token.objects.filter(pk=row.pk).update(used_at=timezone.now())
        return row.reader


def visitor_with(request: HttpRequest, scope: str) -> User | AnonymousUser:
    """Return the reader behind a request for public data, or an anonymous visitor.

    A token that lacks the scope counts as none. Raises ProblemError for an invalid token.
    """
    scheme, _, token = request.headers.get("Authorization", "").partition(" ")
    if scheme.lower() != "bearer":
        return AnonymousUser()
    row = find(token.strip())
    if row is None:
        raise ProblemError(401, "This token is unknown or was revoked.")
    reader = Bearer(scope).authenticate(request, token.strip()) if scope in row.scopes else None
    return reader or AnonymousUser()


def token_reader(request: HttpRequest) -> User:
    """The reader whose token came with a request."""
    reader = request.auth  # type: ignore[attr-defined]  # set by ninja from Bearer's answer
    assert isinstance(reader, User)
    return reader
