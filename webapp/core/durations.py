"""Durations in the language of the page."""

from django.utils.translation import gettext, gettext_noop

from assay_common import quantities

UNITS = (gettext_noop("s"), gettext_noop("min"), gettext_noop("h"))


def duration(seconds: float) -> str:
    """Return `45 s`, `3 min 20 s` or `2 h 5 min`, in Chinese `3 分 20 秒`."""
    return _translated(quantities.duration(seconds))


def span(seconds: float) -> str:
    """Return a round duration without zeros: `5 min`, `2 h`."""
    return _translated(quantities.duration(seconds).removesuffix(" 0 s").removesuffix(" 0 min"))


def _translated(text: str) -> str:
    return " ".join(map(gettext, text.split()))
