"""What a page shows of its reader, laid over a page that was rendered once for all.

A template writes `{% personal "tools" paper %}` where something depends on who reads. On most pages
that is `templates/personal/tools.html`, rendered there and then. On a shared page it is a mark, and
each reader's own pieces take the places of the marks.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from secrets import token_hex

from django.contrib.auth.models import AnonymousUser, User
from django.http import HttpRequest
from django.template.loader import render_to_string

_NONCE = token_hex(8)  # no paper can write a mark: it cannot know this
_MARK = re.compile(rf"{_NONCE}:(\w+):(\d*):([^;]*);")
_SAMPLE = "0000.00000"  # stands for the identifier where a piece is rendered for many papers
# What other rooms know of a reader and some papers, by the name templates call it.
shelves: dict[str, Callable[[User, Sequence[int]], object]] = {}


@dataclass(frozen=True)
class MarkedPaper:
    """What a mark tells of its paper."""

    pk: int
    arxiv_id: str


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
    kept: Mapping[str, object] = {}
    if isinstance(user, User):
        kept = {name: shelf(user, keys) for name, shelf in shelves.items()}
    pieces: dict[tuple[str, tuple[bool, ...]], str] = {}

    def piece(found: re.Match[str]) -> str:
        name, key, identifier = found.groups()
        paper = MarkedPaper(int(key), _SAMPLE) if key else None
        state = (
            tuple(paper.pk in one for shelf in kept.values() for one in vars(shelf).values())
            if paper
            else ()
        )
        if (name, state) not in pieces:
            context = {**kept, "paper": paper, "user": user}
            made = render_to_string(f"personal/{name}.html", context, request)
            pieces[name, state] = made.rstrip("\n")
        return pieces[name, state].replace(_SAMPLE, identifier) if key else pieces[name, state]

    return _MARK.sub(piece, page)
