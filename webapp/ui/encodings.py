"""Content encodings of pages that are kept: which one a client is sent, and how it is made.

Other answers go through Django's gzip middleware, which guards against BREACH.
"""

import gzip
import re

import brotli
from django.http import HttpRequest

ENCODINGS = ("br", "gzip")  # the better one first
QUICK_EFFORT = 4  # for what is compressed for one response, or changes often
_WEIGHT = re.compile(r"q=([01](?:\.\d{0,3})?)")


def chosen(request: HttpRequest) -> str:
    """The one of our encodings that the client prefers, or "" for none.

    By RFC 9110, 12.5.3: weights count, zero refuses, and `*` stands for those not named.
    """
    offered: dict[str, float] = {}
    for offer in request.headers.get("Accept-Encoding", "").lower().split(","):
        name, *parameters = (part.strip() for part in offer.split(";"))
        found = [match for one in parameters if (match := _WEIGHT.fullmatch(one))]
        offered[name] = float(found[0][1]) if found else 1.0
    weights = {name: offered.get(name, offered.get("*", 0.0)) for name in ENCODINGS}
    best = max(ENCODINGS, key=weights.__getitem__)
    return best if weights[best] else ""


def encoded(body: bytes, encoding: str, effort: int) -> bytes:
    """`body` in an encoding ("": unchanged), always the same bytes; `effort` 1 to 11 (gzip: 9)."""
    if encoding == "br":
        return brotli.compress(body, mode=brotli.MODE_TEXT, quality=effort)  # type: ignore[no-any-return]
    return gzip.compress(body, min(effort, 9), mtime=0) if encoding else body
