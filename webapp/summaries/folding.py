"""One spelling for text that means the same: what grounding compares.

PDF, HTML, TeX and a model's answer write one sentence in many ways: ligatures, hyphenation at
line ends, thin spaces, dashes, percent and times signs. `fold` maps them to one form, and never
makes a number out of what was none (10² stays 10^2, not 102).
"""

from __future__ import annotations

import re
import unicodedata

_SUPERSCRIPTS = str.maketrans({c: f"^{d}" for c, d in zip("⁰¹²³⁴⁵⁶⁷⁸⁹", "0123456789", strict=True)})
_SUBSCRIPTS = str.maketrans({c: f"_{d}" for c, d in zip("₀₁₂₃₄₅₆₇₈₉", "0123456789", strict=True)})
_SIGNS = str.maketrans(
    {
        **dict.fromkeys("‐‑‒–—―−﹣", "-"),
        **dict.fromkeys("‘’‚‛′`´", "'"),
        **dict.fromkeys("“”„‟″«»", '"'),
        **dict.fromkeys("×✕✖⨯", "x"),
        **dict.fromkeys("≈∼", "~"),
        "\u00ad": None,  # soft hyphen
        "\u200b": None,  # zero-width space
        "\u2060": None,  # word joiner
        "\ufeff": None,
    }
)
_FRACTIONS = re.compile(r"(?<=\d)(?=[¼½¾⅐-⅞])")
_TEX = (
    (re.compile(r"\\(?:times|cdot)(?![a-z])"), "x"),
    (re.compile(r"\\(?:approx|sim|simeq)(?![a-z])"), "~"),
    (re.compile(r"\\(?:%|percent(?![a-z]))"), "%"),
    (re.compile(r"\\[,;:! ]|~(?=\S)|\\(?:quad|qquad)(?![a-z])"), " "),
    (re.compile(r"\\(?:math|text)[a-z]*\{([^{}]*)\}"), r"\1"),
    (re.compile(r"(?<!\\)\$"), ""),
    (re.compile(r"\{([\d.,]+)\}"), r"\1"),
)
# Whether a hyphen at a line's end belongs to the word cannot be told: none between letters counts.
_HYPHEN = re.compile(r"(?<=[^\W\d_])-(?:[ \t]*\r?\n[ \t]*)?(?=[^\W\d_])")
_THIN_THOUSANDS = re.compile(r"(?<=\d)[\u2009\u202f\u00a0](?=\d{3}(?!\d))")
_COMMA_THOUSANDS = re.compile(r"(?<![\d.,])\d{1,3}(?:,\d{3})+(?![\d,])")
_PERCENT_WORD = re.compile(r"(?<=\d)\s*(?:-\s*)?per\s?cent(?:age)?(?!\w)", re.IGNORECASE)
_SPACE_BEFORE_SIGN = re.compile(r"(?<=\d)\s+(?=%|x(?![a-z]))")
_SPACE = re.compile(r"\s+")


def fold(text: str) -> str:
    """`text` in the one form that grounding compares: lower case, single spaces, plain signs."""
    text = _THIN_THOUSANDS.sub("", text)
    text = _FRACTIONS.sub(" ", text.translate(_SUPERSCRIPTS).translate(_SUBSCRIPTS))
    text = unicodedata.normalize("NFKC", text.translate(_SIGNS)).translate(_SIGNS)
    text = _HYPHEN.sub("", text)
    for pattern, plain in _TEX:
        text = pattern.sub(plain, text)
    text = _COMMA_THOUSANDS.sub(lambda m: m[0].replace(",", ""), text)
    text = _PERCENT_WORD.sub("%", text)
    text = _SPACE.sub(" ", text.casefold())
    return _SPACE_BEFORE_SIGN.sub("", text).strip()
