"""The sentence of an abstract that says what the paper proposes or studies."""

import re

_SENTENCE = re.compile(r"(?<=[.!?])\s+(?=[A-Z\\$])")
_OWN = (
    r"\b(?:we|our (?:work|paper|study|approach|method)|this (?:paper|work|study|article|report))\b"
)
_DOES = (
    r"\b(?:propos|introduc|present|develop|design|show|stud(?:y|ies)|investigat|examin|find|"
    r"demonstrat|provid|address|describ|formulat|explor|analy[sz]|revisit|build|deriv|offer|"
    r"releas|construct|prov(?:e|ing)|establish|report|name|leverag|combin|evaluat|benchmark)"
)
_PROPOSES = re.compile(
    rf"{_OWN}[^.]{{0,60}}?{_DOES}|\b(?:is|are) (?:proposed|introduced|presented)\b", re.IGNORECASE
)


def proposing_sentence(abstract: str) -> str:
    """The first sentence in which the authors say what they do; "" if none does."""
    return next(filter(_PROPOSES.search, _SENTENCE.split(abstract)), "")
