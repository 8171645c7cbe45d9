"""Content encodings: which one a client is sent, and how it is made."""

import gzip
import re

import brotli
from django.http import HttpRequest

ENCODINGS = ("br", "gzip")  # the better first
_WEIGHT = re.compile(r"q=([01](?:\.\d{0,3})?)")


def chosen(request: HttpRequest) -> str:
    """The encoding that the client likes best of those we make, or "" for none.

    By RFC 9110, 12.5.3: weights count, zero refuses, and `*` stands for what is not named.
    """
    weights: dict[str, float] = {}
    for offer in request.headers.get("Accept-Encoding", "").lower().split(","):
        name, *parameters = (part.strip() for part in offer.split(";"))
        found = [match for one in parameters if (match := _WEIGHT.fullmatch(one))]
        weights[name] = float(found[0][1]) if found else 1.0
    liked = {name: weights.get(name, weights.get("*", 0.0)) for name in ENCODINGS}
    best = max(ENCODINGS, key=liked.__getitem__)
    return best if liked[best] else ""


def encoded(body: bytes, encoding: str, effort: int) -> bytes:
    """`body` in an encoding, "" being as it is; `effort` 1 to 11 (gzip: 9). Always the same."""
    if encoding == "br":
        return brotli.compress(body, mode=brotli.MODE_TEXT, quality=effort)  # type: ignore[no-any-return]
    return gzip.compress(body, min(effort, 9), mtime=0) if encoding else body
