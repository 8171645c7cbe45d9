"""SVG that may stand in a page: an allow-list of strokes and words, by nh3.

No script, no style, no link, no reference to anything outside: a drawing is shapes and labels.
"""

import nh3

from webapp.ui.markup import DATA

_ALLOWED = {tag: set(names) for tag, names in DATA["drawing"].items()}
_CLEANER = nh3.Cleaner(
    tags=_ALLOWED.keys() - {"*"},
    clean_content_tags={"script", "style"},
    attributes=_ALLOWED,
    generic_attribute_prefixes=set(),
    strip_comments=True,
)


def clean(svg: str) -> str:
    """`svg` with nothing in it that could act or load."""
    return _CLEANER.clean(svg)
