"""The seed bot's config.json (arxiv_rss_bot), read as a profile.

Its categories, keywords, excluded words, size, least score and the language of its summaries are
taken; days_back, its summary server and whatever else stands there mean nothing here.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from typing import Any

from django.db import transaction

from webapp.digests.models import Profile
from webapp.digests.profiles.validation import (
    ProfileError,
    ProfileSettings,
    apply_settings,
    checked_settings,
    free_slug,
)
from webapp.papers.models import AnnounceType

MAX_BYTES = 1 << 20
_OURS = {  # what an error about our field is an error about there
    "categories": "categories",
    "keywords": "keywords",
    "exclude": "exclude_keywords",
    "size": "max_papers",
    "min_score": "min_score",
}


def read_config(raw: bytes, name: str, matching: Profile.Matching) -> ProfileSettings:
    """A configuration's bytes as a checked profile. Raises ProfileError, by its own fields.

    The seed bot reads only papers announced as new, and counts a keyword as often as it stands in
    the list: its weights are added up here.
    """
    config = _parse(raw)
    errors: dict[str, list[str]] = {}
    data: dict[str, Any] = {
        "name": name,
        "categories": _texts(config, "categories", errors),
        "exclude": _texts(config, "exclude_keywords", errors, required=False),
        "announce_types": [AnnounceType.NEW],
        "matching": matching,
        "size": config.get("max_papers", 30),
        "min_score": config.get("min_score", 0) or 0,
    }
    counts: Counter[str] = Counter()
    for keyword in _texts(config, "keywords", errors):
        counts[keyword.lower()] += 1
    first = {keyword.lower(): keyword for keyword in reversed(_texts(config, "keywords", {}))}
    data["keywords"] = [
        {"keyword": first[folded], "weight": 1.0 * count, "title_bonus": 0.5 * count}
        for folded, count in counts.items()
    ]
    if errors:
        raise ProfileError(errors)
    if matching == Profile.Matching.TOKEN:
        data["exclude"] = list({text.lower(): text for text in data["exclude"]}.values())
    else:
        data["exclude"] = list(dict.fromkeys(text.lower() for text in data["exclude"]))
    try:
        return checked_settings(data)
    except ProfileError as error:
        raise ProfileError(
            {_OURS.get(field, field): messages for field, messages in error.errors.items()}
        ) from None


def _parse(raw: bytes) -> Mapping[str, Any]:
    if len(raw) > MAX_BYTES:
        raise ProfileError({"file": [f"is larger than {MAX_BYTES:,} bytes"]})
    try:
        config = json.loads(raw.decode("utf-8-sig"))
    except UnicodeDecodeError:
        raise ProfileError({"file": ["is not UTF-8 text"]}) from None
    except json.JSONDecodeError as error:
        raise ProfileError(
            {"file": [f"is not JSON: {error.msg} in line {error.lineno}, column {error.colno}"]}
        ) from None
    except RecursionError:
        raise ProfileError({"file": ["nests too deep"]}) from None
    if not isinstance(config, dict):
        raise ProfileError({"file": ["is no JSON object"]})
    return config


def _texts(
    config: Mapping[str, Any], name: str, errors: dict[str, list[str]], *, required: bool = True
) -> list[str]:
    """A field that must be a list of texts."""
    value = config.get(name, None if required else [])
    if value is None:
        errors[name] = ["is missing: write a list of texts"]
        return []
    if not isinstance(value, list):
        errors[name] = [f"is {_kind(value)}: write a list of texts"]
        return []
    wrong = [
        f"{number}: is {_kind(one)}, not a text"
        for number, one in enumerate(value, 1)
        if not isinstance(one, str)
    ]
    if wrong:
        errors[name] = wrong
        return []
    if required and not value:
        errors[name] = ["is empty: name at least one"]
    return value


def _kind(value: object) -> str:
    names = {dict: "an object", list: "a list", str: "a text", bool: "a truth value"}
    return "nothing" if value is None else names.get(type(value), "a number")


def import_profile(new: ProfileSettings) -> tuple[Profile, bool]:
    """Store a profile of the site's operator under its name; whether it was made.

    The same configuration under the same name again changes that profile, and makes no other.
    """
    with transaction.atomic():
        found = Profile.objects.select_for_update().filter(name=new.name, owner=None).first()
        profile = found or Profile(slug=free_slug(new.name))
        apply_settings(profile, new)
        profile.save()
    return profile, found is None
