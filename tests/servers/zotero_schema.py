"""Validation of items by Zotero's own schema and by the rules of its server.

`zotero_schema.json` is the part of https://api.zotero.org/schema (version 41) that names the fields
and creators a preprint has, and what becomes of the variables of CSL. The rules for a new item are
those of zotero/dataserver (model/Items.inc.php, validateJSONItem).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

SCHEMA: dict[str, Any] = json.loads(Path(__file__).with_name("zotero_schema.json").read_text())
KEY = re.compile(r"[23456789ABCDEFGHIJKLMNPQRSTUVWXYZ]{8}")
WITHOUT_A_FIELD = {"key", "version", "itemType", "tags", "collections", "relations", "creators"}


def faults(item: dict[str, Any]) -> list[str]:
    """Why Zotero's server would refuse a new item, or drop a part of it."""
    return list(_faults(item))


def _faults(item: dict[str, Any]) -> Iterator[str]:
    if item.get("itemType") != "preprint":
        yield f"itemType is {item.get('itemType')!r}"
    if not KEY.fullmatch(item["key"]):
        yield f"{item['key']!r} is no key"
    for name in item.keys() - WITHOUT_A_FIELD:
        if name not in SCHEMA["preprint"]:
            yield f"a preprint has no field {name!r}"
        elif not isinstance(item[name], str):
            yield f"{name} is no text"
    for tag in item["tags"]:
        if tag.keys() - {"tag", "type"} or not 0 < len(str(tag["tag"])) <= 255:
            yield f"{tag} is no tag"
    if not all(KEY.fullmatch(key) for key in item["collections"]):
        yield "a collection has no key"
    for creator in item["creators"]:
        yield from _creator_faults(creator)


def _creator_faults(creator: dict[str, str]) -> Iterator[str]:
    named = dict(creator)
    if named.pop("creatorType", None) not in SCHEMA["creatorTypes"]:
        yield f"{creator} has no type of a preprint's creators"
    if named.keys() not in ({"name"}, {"firstName", "lastName"}):
        yield f"{creator} has neither a name nor a first and a last name"
    if not any(text.strip() for text in named.values()):
        yield f"{creator} is nameless"
    if any(len(text) > 255 for text in named.values()):
        yield f"{creator} is too long"


def preprint_of(csl: dict[str, Any]) -> dict[str, Any]:
    """The item that Zotero makes of a CSL item by its schema (zotero/utilities, itemFromCSLJSON).

    Raises KeyError for a variable that it knows but a preprint has no field for.
    """
    assert SCHEMA["cslTypes"] == ["preprint"]
    item: dict[str, Any] = {"itemType": "preprint"}
    for variable in csl.keys() - {"id", "type", *SCHEMA["cslNames"]}:
        if variable in SCHEMA["cslDate"]:
            (parts,) = csl[variable]["date-parts"]
            item[SCHEMA["cslDate"][variable]] = "-".join(f"{part:02}" for part in parts)
            continue
        names = (SCHEMA["base"].get(name, name) for name in SCHEMA["cslText"][variable])
        item[next(name for name in names if name in SCHEMA["preprint"])] = csl[variable]
    return item
