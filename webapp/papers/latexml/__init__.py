"""Text of arXiv's HTML, which LaTeXML writes: one reader for tables, sections and links.

Raised and lowered text stands beside the line. Behind a number it is an exponent, a spread, a gain
or a note, and never one more digit: `85<sup>1</sup>` is 85 with the note 1.
"""

from .errors import is_colour, is_row_colour
from .scripts import Line
from .tex import plain_tex, without_colours
from .text import Around, Write, parse, read

__all__ = [
    "Around",
    "Line",
    "Write",
    "is_colour",
    "is_row_colour",
    "parse",
    "plain_tex",
    "read",
    "without_colours",
]
