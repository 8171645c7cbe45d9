"""Defaults of a card in a list of papers; templates/pages/card.html reads them."""

from typing import Any


class Card:
    """Empty values of the attributes that only a digest's entries have.

    Django looks through all names of an object for each attribute that a template misses, which
    took a tenth of a page's time.
    """

    title_html = abstract_html = gist = gist_html = announce_type = ""
    rank: int | None = None
    version: int | None = None
    chips: tuple[Any, ...] = ()
    matches: tuple[Any, ...] = ()
