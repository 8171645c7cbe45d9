"""SVG that may stand in a page: an allow-list of strokes and words, by nh3.

No script, no style, no link, no reference to anything outside: a drawing is shapes and labels.
"""

from __future__ import annotations

import nh3

_CLEANER = nh3.Cleaner(
    tags={
        *("svg", "title", "desc", "g", "path", "line", "polyline"),
        *("rect", "circle", "text", "tspan"),
    },
    clean_content_tags={"script", "style"},
    attributes={
        "*": {"class"},
        "svg": {"viewBox", "role", "aria-labelledby"},
        "title": {"id"},
        "desc": {"id"},
        "g": {"transform"},
        "path": {"d"},
        "line": {"x1", "y1", "x2", "y2"},
        "polyline": {"points"},
        "rect": {"x", "y", "width", "height"},
        "circle": {"cx", "cy", "r"},
        "text": {"x", "y", "dx", "dy", "text-anchor"},
        "tspan": {"x", "y", "dx", "dy"},
    },
    generic_attribute_prefixes=set(),
    strip_comments=True,
)


def clean(svg: str) -> str:
    """`svg` with nothing in it that could act or load."""
    return _CLEANER.clean(svg)
