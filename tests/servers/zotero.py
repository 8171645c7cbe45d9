"""A library at Zotero to be read, by the rules of its API version 3.

https://www.zotero.org/support/dev/web_api/v3/syncing: every object has the version of the library
at its last change; an answer says the library's version; `since` gives what is later, and
`If-Modified-Since-Version` a 304 where nothing is.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from werkzeug import Request, Response


class ZoteroLibrary:
    """The library of `users/1`, for holders of the key. `answers` are given first."""

    def __init__(self, key: str) -> None:
        self.key = key
        self.version = 0
        self.items: dict[str, dict[str, Any]] = {}
        self.collections: dict[str, dict[str, Any]] = {}
        self.deleted: dict[str, int] = {}
        self.requests: list[str] = []
        self.answers: list[Response] = []
        self.after_page: Callable[[], object] = lambda: None

    def keep(self, key: str, **data: Any) -> None:
        """Add or change an item."""
        self.version += 1
        known = self.items.get(key, {"data": {"itemType": "preprint", "collections": []}})
        self.items[key] = {"key": key, "version": self.version, "data": known["data"] | data}

    def remove(self, key: str) -> None:
        """Delete an item for good."""
        self.version += 1
        del self.items[key]
        self.deleted[key] = self.version

    def collect(self, key: str, name: str, parent: str | bool = False) -> None:
        """Add a collection."""
        self.version += 1
        data = {"name": name, "parentCollection": parent}
        self.collections[key] = {"key": key, "version": self.version, "data": data}

    def __call__(self, request: Request) -> Response:
        self.requests.append(f"{request.method} {request.path}")
        if self.answers:
            return self.answers.pop(0)
        assert request.headers["Zotero-API-Version"] == "3"
        if request.headers["Zotero-API-Key"] != self.key:
            return Response("Forbidden", 403)
        if int(request.headers.get("If-Modified-Since-Version", -1)) >= self.version:
            return Response(status=304)
        said = {"Last-Modified-Version": str(self.version)}
        since = request.args.get("since", 0, int)
        if request.path.endswith("/deleted"):
            gone = [key for key, version in self.deleted.items() if version > since]
            return Response(json.dumps({"items": gone, "collections": []}), headers=said)
        is_items = request.path.endswith("/items/top")
        kept = self.items if is_items else self.collections
        found = [one for one in kept.values() if one["version"] > since or not is_items]
        limit, start = (
            min(request.args.get("limit", 25, int), 100),
            request.args.get("start", 0, int),
        )
        said["Total-Results"] = str(len(found))
        answer = Response(json.dumps(found[start : start + limit]), headers=said)
        self.after_page()
        return answer
