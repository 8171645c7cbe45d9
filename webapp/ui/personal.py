"""What a page shows of its reader, laid over a page that was rendered once for all.

A template writes `{% personal "tools" paper %}` where something depends on who reads. On most pages
that is `templates/personal/tools.html`, rendered there and then. On a shared page it is a mark, and
each reader's own pieces take the places of the marks. A piece that says more of a paper than its
place on the reader's shelf stands on the page of that paper alone.
"""

import re
from collections.abc import Callable, Sequence
from collections.abc import Set as AbstractSet
from secrets import token_hex
from types import SimpleNamespace
from typing import NamedTuple

from django.contrib.auth.models import AnonymousUser, User
from django.http import HttpRequest
from django.template.loader import render_to_string

_NONCE = token_hex(8)  # no paper can write a mark: it cannot know this
_MARK = re.compile(rf"{_NONCE}:(\w+):(\d*):([^;]*);")
_SAMPLE = "0000.00000"  # stands for the identifier where a piece is rendered for many papers


class Shelf(NamedTuple):
    """Of some papers, by key: which a reader keeps, left and has read."""

    starred: AbstractSet[int] = frozenset()
    left: AbstractSet[int] = frozenset()
    read: AbstractSet[int] = frozenset()


# The library's room puts its own here.
shelf_of: Callable[[User, Sequence[int]], Shelf] = lambda _reader, _keys: Shelf()  # noqa: E731


def share(request: HttpRequest) -> None:
    """From here on, templates of this request leave marks instead of personal pieces."""
    request.shared_page = True  # type: ignore[attr-defined]


def is_shared(request: HttpRequest) -> bool:
    """Whether a page is being rendered for all readers."""
    return getattr(request, "shared_page", False)


def mark(name: str, key: int | None = None, identifier: str = "") -> str:
    """The place of a piece, for `lay_over` to fill."""
    return f"{_NONCE}:{name}:{key or ''}:{identifier};"


def lay_over(request: HttpRequest, page: str) -> str:
    """`page` with its reader's own pieces in the places of the marks."""
    request.shared_page = False  # type: ignore[attr-defined]
    keys = [int(key) for _, key, _ in _MARK.findall(page) if key]
    user: User | AnonymousUser = request.user if request.COOKIES else AnonymousUser()
    kept = shelf_of(user, keys) if isinstance(user, User) else Shelf()
    pieces: dict[tuple[str, tuple[bool, ...]], str] = {}

    def piece(found: re.Match[str]) -> str:
        name, key, identifier = found.groups()
        paper = SimpleNamespace(pk=int(key), arxiv_id=_SAMPLE) if key else None
        state = tuple(paper.pk in one for one in kept) if paper else ()
        if (name, state) not in pieces:
            context = {"kept": kept, "paper": paper, "user": user}
            made = render_to_string(f"personal/{name}.html", context, request)
            pieces[name, state] = made.rstrip("\n")
        return pieces[name, state].replace(_SAMPLE, identifier) if key else pieces[name, state]

    return _MARK.sub(piece, page)
