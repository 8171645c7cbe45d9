"""The seed bot's config.json (arxiv_rss_bot), read as a profile.

Its categories, keywords, excluded words, size, least score and the language of its summaries are
taken; days_back, its summary server and whatever else stands there mean nothing here.
"""

from collections import Counter
from typing import Any

from django.db import transaction
from pydantic import BaseModel, ValidationError

from webapp.digests.models import Profile
from webapp.digests.profiles.validation import (
    ProfileError,
    ProfileSettings,
    apply_settings,
    checked_settings,
    errors_by_field,
    free_slug,
)
from webapp.papers.models import AnnounceType

MAX_BYTES = 1 << 20
_OURS = {  # what an error about our field is an error about there
    "exclude": "exclude_keywords",
    "size": "max_papers",
}


class SeedConfig(BaseModel):
    """What is read of the file; the bounds are a profile's."""

    categories: list[str]
    keywords: list[str]
    exclude_keywords: list[str] = []
    max_papers: Any = 30
    min_score: Any = 0


def read_config(raw: bytes, name: str, matching: Profile.Matching) -> ProfileSettings:
    """A configuration's bytes as a checked profile. Raises ProfileError, by its own fields.

    The seed bot reads only papers announced as new, and counts a keyword as often as it stands in
    the list: its weights are added up here.
    """
    if len(raw) > MAX_BYTES:
        raise ProfileError({"file": [f"is larger than {MAX_BYTES:,} bytes"]})
    try:
        config = SeedConfig.model_validate_json(raw.removeprefix(b"\xef\xbb\xbf"))
    except ValidationError as error:
        raise ProfileError(errors_by_field(error, "file")) from None
    counts = Counter(keyword.lower() for keyword in config.keywords)
    first = {keyword.lower(): keyword for keyword in reversed(config.keywords)}
    data = {
        "name": name,
        "categories": config.categories,
        "keywords": [
            {"keyword": first[folded], "weight": 1.0 * count, "title_bonus": 0.5 * count}
            for folded, count in counts.items()
        ],
        "exclude": list({text.lower(): text for text in config.exclude_keywords}.values()),
        "announce_types": [AnnounceType.NEW],
        "matching": matching,
        "size": config.max_papers,
        "min_score": config.min_score or 0,
    }
    try:
        return checked_settings(data)
    except ProfileError as error:
        raise ProfileError(
            {_OURS.get(field, field): messages for field, messages in error.errors.items()}
        ) from None


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
