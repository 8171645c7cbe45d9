"""The model and the hardware that a sentence or a caption names, where it names only one."""

import re

from webapp.core.tables import table

_WORDS = table(__file__, "surroundings.toml")
_MODEL = re.compile(rf"\b(?:{'|'.join(_WORDS['models'])})(?:[-.\w]*\w)?(?: \d+(?:\.\d+)?[BM]?\b)*")
_KIND = re.compile(r"-(?:architecture|based|style|like|family|type)$")  # no model of its own
_HARDWARE = re.compile(rf"\b(?:{'|'.join(_WORDS['hardware'])})\b")


def model(text: str) -> str:
    """The only model that a text names, else ""."""
    return _only(_MODEL, text)


def hardware(text: str) -> str:
    """The only kind of machine that a text names, else ""."""
    return _only(_HARDWARE, text)


def _only(pattern: re.Pattern[str], text: str) -> str:
    names = {match[0] for match in pattern.finditer(text) if not _KIND.search(match[0])}
    return names.pop() if len(names) == 1 else ""
