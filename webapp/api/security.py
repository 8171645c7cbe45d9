"""Authentication by a reader's token and its scope."""

from django.contrib.auth.models import AnonymousUser, User
from django.http import HttpRequest
from ninja.security import HttpBearer

from webapp.api import tokens
from webapp.api.models import Token
from webapp.api.problems import ProblemError


class Bearer(HttpBearer):
    """Authenticates by a token that has the scope; its requests are limited by the minute."""

    def __init__(self, scope: str) -> None:
        super().__init__()
        self.scope = scope

    def authenticate(self, request: HttpRequest, token: str) -> User | None:
        """The reader of a valid token. Raises ProblemError without the scope or over the limit."""
        found = _found(token)
        if found is None:
            return None
        if self.scope not in found.scopes:
            raise ProblemError(403, f"This token does not have the scope {self.scope!r}.")
        if not tokens.spend(found):
            raise ProblemError(
                429,
                f"A token may make {tokens.A_MINUTE} requests per minute. Try again in a minute.",
                headers={"Retry-After": "60"},
            )
        return found.reader


def _found(token: str) -> Token | None:
    """The row of a token, if it is known. Raises ProblemError for one that has expired."""
    try:
        return tokens.find(token)
    except tokens.ExpiredError as error:
        raise ProblemError(401, str(error)) from None


def visitor_of(request: HttpRequest, scope: str) -> User | AnonymousUser:
    """Who asks for something public: the reader of a token with the scope, else a visitor.

    A token without the scope takes nothing away. Raises ProblemError for one that is void.
    """
    scheme, _, token = request.headers.get("Authorization", "").partition(" ")
    if scheme.lower() != "bearer":
        return AnonymousUser()
    found = _found(token.strip())
    if found is None:
        raise ProblemError(401, "This token is unknown or was revoked.")
    reader = Bearer(scope).authenticate(request, token.strip()) if scope in found.scopes else None
    return reader or AnonymousUser()


def reader_of(request: HttpRequest) -> User:
    """The reader whose token came with a request."""
    reader = request.auth  # type: ignore[attr-defined]  # set by ninja from Bearer's answer
    assert isinstance(reader, User)
    return reader
