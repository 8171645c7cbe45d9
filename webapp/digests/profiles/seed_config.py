"""Import of the seed bot's config.json (arxiv_rss_bot) as a profile.

Its categories, keywords, excluded words, size and minimum score are read; days_back, its summary
server and all other fields are ignored.
"""

from collections import Counter
from typing import Any

from pydantic import BaseModel, ValidationError

from webapp.core.encodings import EncodingError, decoded
from webapp.digests.models import Profile
from webapp.digests.profiles.validation import (
    ProfileError,
    ProfileSettings,
    checked_settings,
    errors_by_field,
)
from webapp.papers.models import AnnounceType

MAX_BYTES = 1 << 20
_THEIR_NAMES = {"exclude": "exclude_keywords", "size": "max_papers"}  # of fields, for errors


class SeedConfig(BaseModel):
    """The fields that are read; their limits are those of a profile."""

    categories: list[str]
    keywords: list[str]
    exclude_keywords: list[str] = []
    max_papers: Any = 30
    min_score: Any = 0


def read_config(raw: bytes, name: str, matching: Profile.Matching) -> ProfileSettings:
    """A configuration as checked settings. Raises ProfileError, with the seed bot's field names.

    The seed bot reads only papers announced as new, and counts a keyword as often as it is listed:
    here that is its weight.
    """
    if len(raw) > MAX_BYTES:
        raise ProfileError({"file": [f"is larger than {MAX_BYTES:,} bytes"]})
    try:
        config = SeedConfig.model_validate_json(decoded(raw))
    except EncodingError as error:
        raise ProfileError({"file": [str(error)]}) from None
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
            {_THEIR_NAMES.get(name, name): messages for name, messages in error.errors.items()}
        ) from None
