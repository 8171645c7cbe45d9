"""What a card in a list of papers may show; templates/pages/card.html reads it."""

from typing import Any


class Card:
    """What only a digest's entries have, as nothing.

    Django looks through all names of an object for each attribute that a template misses, which
    took a tenth of a page's time.
    """

    title_html = abstract_html = gist = gist_html = announce_type = ""
    rank: int | None = None
    version: int | None = None
    chips: tuple[Any, ...] = ()
    matches: tuple[Any, ...] = ()
