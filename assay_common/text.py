"""One cleaner for every text that comes in: by HTTP, feed, model, file or message."""

import re

from pydantic import JsonValue

_TERMINAL_SEQUENCE = re.compile(
    r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-_])?"
)
_LINE_END = re.compile("\r\n?|[\x85\u2028\u2029]")
# Control characters other than newline and tab, lone surrogates and noncharacters; format
# characters that are not seen themselves but hide, join or reorder others (bidi, zero width, tags);
# and letters that look like nothing.
_UNSEEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff\ufdd0-\ufdef\ufffe\uffff"
    "\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e"
    "\u2060-\u206f\u3164\ufeff\uffa0\ufff0-\ufffb\U0001bca0-\U0001bca3\U0001d173-\U0001d17a"
    "\U000e0000-\U000e0fff]"
)


def clean(text: str) -> str:
    """``text`` without what could hide, reorder or restyle it where it is shown.

    Terminal sequences, control characters other than newline and tab, characters that are not
    seen, bidirectional overrides and lone surrogates go; every line ends with a newline.
    """
    return _UNSEEN.sub("", _LINE_END.sub("\n", _TERMINAL_SEQUENCE.sub("", text)))


def one_line(text: str) -> str:
    """``clean`` text with every run of white space as one space."""
    return " ".join(clean(text).split())


def clean_json(value: JsonValue) -> JsonValue:
    """A value of JSON with every text in it ``clean``, names too."""
    if isinstance(value, str):
        return clean(value)
    if isinstance(value, list):
        return [clean_json(item) for item in value]
    if isinstance(value, dict):
        return {clean(name): clean_json(item) for name, item in value.items()}
    return value
