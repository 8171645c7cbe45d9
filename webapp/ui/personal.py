"""Personal fragments of pages that are rendered once for all readers.

A template writes `{% personal "tools" paper %}` where something depends on the reader. On most
pages that renders `templates/personal/tools.html` at once. On a shared page it leaves a mark, which
is replaced by each reader's own fragment. A fragment that depends on more than the paper's place on
the reader's shelf may only be used on that paper's page.
"""

import re
from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from secrets import token_hex
from types import SimpleNamespace
from typing import NamedTuple

from django.contrib.auth.models import AnonymousUser, User
from django.http import HttpRequest
from django.template.loader import render_to_string

from webapp.core.hooks import Hook

_NONCE = token_hex(8)  # so that no paper's text can contain a mark
_MARK = re.compile(rf"{_NONCE}:(\w+):(\d*):([^;]*);")
_SAMPLE = "0001.00000"  # placeholder for the identifier, in fragments rendered for many papers


class Shelf(NamedTuple):
    """The keys of those papers that a reader has saved, marked "not for me" and read."""

    starred: AbstractSet[int] = frozenset()
    left: AbstractSet[int] = frozenset()
    read: AbstractSet[int] = frozenset()


@Hook
def shelf_of(_reader: User, _keys: Sequence[int], /) -> Shelf:
    """Return which of the papers with these keys are on a reader's shelf: the library knows."""
    return Shelf()


def share(request: HttpRequest) -> None:
    """Make the templates of this request leave marks instead of personal fragments."""
    request.shared_page = True  # type: ignore[attr-defined]


def is_shared(request: HttpRequest) -> bool:
    """True if a page is being rendered for all readers."""
    return getattr(request, "shared_page", False)


def mark(name: str, key: int | None = None, identifier: str = "") -> str:
    """The mark of a fragment, which `lay_over` replaces."""
    return f"{_NONCE}:{name}:{key or ''}:{identifier};"


def lay_over(request: HttpRequest, page: str) -> str:
    """`page` with its marks replaced by its reader's fragments."""
    request.shared_page = False  # type: ignore[attr-defined]
    keys = [int(key) for _, key, _ in _MARK.findall(page) if key]
    user: User | AnonymousUser = request.user if request.COOKIES else AnonymousUser()
    shelf = shelf_of(user, keys) if isinstance(user, User) else Shelf()
    pieces: dict[tuple[str, tuple[bool, ...]], str] = {}

    def piece(mark: re.Match[str]) -> str:
        name, key, identifier = mark.groups()
        paper = SimpleNamespace(pk=int(key), arxiv_id=_SAMPLE) if key else None
        state = tuple(paper.pk in marked for marked in shelf) if paper else ()
        if (name, state) not in pieces:
            context = {"kept": shelf, "paper": paper, "user": user}
            made = render_to_string(f"personal/{name}.html", context, request)
            pieces[name, state] = made.rstrip("\n")
        return pieces[name, state].replace(_SAMPLE, identifier) if key else pieces[name, state]

    return _MARK.sub(piece, page)
