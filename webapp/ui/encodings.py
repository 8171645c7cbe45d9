"""Content encodings: which one a client is sent, and how it is made."""

import gzip
import re

import brotli
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.middleware.gzip import GZipMiddleware
from django.utils.cache import patch_vary_headers

ENCODINGS = ("br", "gzip")  # the better first
QUICK_EFFORT = 4  # of what is compressed for one answer, or changes often
_WEIGHT = re.compile(r"q=([01](?:\.\d{0,3})?)")


def chosen(request: HttpRequest) -> str:
    """The encoding that the client likes best of those we make, or "" for none."""
    liked = _liked(request)
    best = max(ENCODINGS, key=liked.__getitem__)
    return best if liked[best] else ""


def _liked(request: HttpRequest) -> dict[str, float]:
    """Return the client's quality value for each encoding that we make.

    By RFC 9110, 12.5.3: weights count, zero refuses, and `*` stands for what is not named.
    """
    weights: dict[str, float] = {}
    for offer in request.headers.get("Accept-Encoding", "").lower().split(","):
        name, *parameters = (part.strip() for part in offer.split(";"))
        weighed = [match for parameter in parameters if (match := _WEIGHT.fullmatch(parameter))]
        weights[name] = float(weighed[0][1]) if weighed else 1.0
    return {name: weights.get(name, weights.get("*", 0.0)) for name in ENCODINGS}


def encoded(body: bytes, encoding: str, effort: int) -> bytes:
    """`body` in an encoding, "" being as it is; `effort` 1 to 11 (gzip: 9). Always the same."""
    if encoding == "br":
        return brotli.compress(body, mode=brotli.MODE_TEXT, quality=effort)  # type: ignore[no-any-return]
    return gzip.compress(body, min(effort, 9), mtime=0) if encoding else body


class CompressionMiddleware(GZipMiddleware):
    """Answers that are not kept, by gzip as Django does it: with a guard against BREACH."""

    def process_response(
        self, request: HttpRequest, response: HttpResponseBase
    ) -> HttpResponseBase:
        """The answer compressed; by Brotli for those who take nothing else."""
        if _liked(request)["gzip"]:
            answer = super().process_response(request, response)
        else:  # Django's looks for the word alone, and `gzip;q=0` has it
            answer = response
            patch_vary_headers(answer, ("Accept-Encoding",))
        if not isinstance(answer, HttpResponse) or answer.has_header("Content-Encoding"):
            return answer
        if chosen(request) == "br" and len(answer.content) >= 200:
            answer.content = encoded(answer.content, "br", QUICK_EFFORT)
            answer["Content-Encoding"] = "br"
            answer["Content-Length"] = str(len(answer.content))
            if answer.headers.get("ETag", "").startswith('"'):  # a strong tag names other bytes
                answer["ETag"] = f"W/{answer['ETag']}"
        return answer
