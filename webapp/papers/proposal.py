"""The sentence of an abstract that says what the paper proposes or studies."""

import re

SENTENCE_END = re.compile(r"(?<=[.!?])\s+(?=[A-Z\\$])")
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
# Without "we": "RoSA routes each head …" follows a name of the paper's own, and results have verbs.
_FINDS = re.compile(
    r"^(?:[A-Z][a-z]*[A-Z]\w*|[A-Z]\w*-[A-Z]\w*) \w+s\b"
    r"|\b(?i:(?:results?|experiments?|findings?)\b.{0,40}\b(?:show|suggest|demonstrat|reveal))"
    r"|\b(?i:outperform|achiev|improv|reduc|surpass|attain)(?:es|s|ed)\b"
)


def proposing_sentence(abstract: str) -> str:
    """The first sentence in which the authors say what they do; "" if none does."""
    return next(filter(_PROPOSES.search, SENTENCE_END.split(abstract)), "")


def informative_sentence(abstract: str) -> str:
    """What a row or a mail says of a paper without a summary, rarely its opening commonplace.

    The sentence in which the authors say what they do, else the first in which something is done
    or found, else the second: the first tells what everybody knows.
    """
    sentences = SENTENCE_END.split(abstract.strip())
    telling = (proposing_sentence(abstract), *filter(_FINDS.search, sentences), *sentences[1:2])
    return next(filter(None, telling), sentences[0])
