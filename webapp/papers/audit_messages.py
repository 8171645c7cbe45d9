"""Messages of the audit in a reader's language: stored in English, as logs have them."""

import re
from functools import cache

from django.utils.translation import gettext, gettext_noop

# As `fetch`, `polling` and `listings` write them, the most specific first.
KNOWN = (
    gettext_noop("A sample: the abstracts are Assay's own summaries"),
    gettext_noop("%(host)s cannot be reached: its name is not found (this machine may be offline)"),
    gettext_noop("%(host)s cannot be reached: %(why)s"),
    gettext_noop("%(host)s did not answer in time"),
    gettext_noop("%(host)s took longer than %(seconds)s s"),
    gettext_noop("%(host)s asks us to wait %(seconds)s s (HTTP %(status)s)"),
    gettext_noop("%(host)s answers HTTP %(status)s: %(why)s"),
    gettext_noop("%(host)s answers HTTP %(status)s"),
    gettext_noop("next request to arXiv in %(seconds)s s"),
    gettext_noop("arXiv still serves the batch of %(weekday)s %(date)s"),
    gettext_noop("arXiv announces nothing on a %(weekday)s"),
    gettext_noop("a valid feed without papers: a holiday, or a fault of the feed"),
    gettext_noop("final once the API knows none on %(days)s days"),
    gettext_noop("the feed is cut off before its end"),
    gettext_noop("the answer is neither RSS nor Atom"),
    gettext_noop("the API has no papers submitted for this day"),
    gettext_noop("from the API, by submission: replacements and late announcements are not in it"),
    gettext_noop("not requested: nothing was fetched on that day"),
)
_SENTENCE_END = re.compile(r"(?<=\.) ")
_SOURCE = re.compile(r"((?:RSS|Atom|API): )?(.*?)(\.?)", re.DOTALL)


def translate_reason(reason: str) -> str:
    """Translate a stored reason; a text of no known form stays as it is."""
    parts = reason.split("; ")
    said = [" ".join(map(_translated, _SENTENCE_END.split(part))) for part in parts]
    return reason if said == parts else gettext("; ").join(said)


def _translated(text: str) -> str:
    source, bare, stop = _SOURCE.fullmatch(text).groups("")  # type: ignore[union-attr]
    for message in KNOWN:
        if match := _form(message).fullmatch(bare):
            values = {name: gettext(value) for name, value in match.groupdict().items()}
            return f"{source}{gettext(message) % values}{gettext(stop) if stop else stop}"
    return text


@cache
def _form(message: str) -> re.Pattern[str]:
    return re.compile(re.sub(r"%\\\((\w+)\\\)s", r"(?P<\1>.+)", re.escape(message)))
