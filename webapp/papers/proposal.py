"""The sentence of an abstract that states the paper's proposal or subject."""

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
# "To address these challenges, we …", "In this paper, we …": the same words in front of any paper.
_RUN_UP = re.compile(
    r"^(?:(?:however|therefore|thus|hence|accordingly|consequently|in response|to this end"
    r"|to th(?:at|ose) end|to do so|for this purpose|here|in light of (?:this|these)[^,]{0,60}"
    r"|(?:motivated|inspired|driven) by (?:this|these|such)[^,]{0,60}"
    r"|(?:based|building) (?:up)?on (?:this|these|such)[^,]{0,60}"
    r"|to (?:address|tackle|overcome|mitigate|resolve|solve|bridge|fill|close|remedy|alleviate"
    r"|handle|meet|answer|explore|investigate) (?:all |both )?"
    r"(?:this|these|those|the above|the aforementioned|such|it\b)[^,]{0,60}"
    r"|in (?:this|the present) (?:paper|work|study|article|report|manuscript|contribution)),? )+"
    r"(?=(?:we|our|this|the)\b)",
    re.IGNORECASE,
)
_CLAUSE_END = re.compile(r"[,;:—](?=\s)| [–-]{1,3} ")


def proposing_sentence(abstract: str) -> str:
    """Return the first sentence in which the authors say what they do, or ""."""
    return next(filter(_PROPOSES.search, SENTENCE_END.split(abstract)), "")


def informative_sentence(abstract: str) -> str:
    """Return the most informative sentence of an abstract, rarely its opening commonplace.

    It is the sentence in which the authors say what they do, else the first one with an action or a
    finding, else the second, because the first states common knowledge.
    """
    sentences = SENTENCE_END.split(abstract.strip())
    telling = (proposing_sentence(abstract), *filter(_FINDS.search, sentences), *sentences[1:2])
    return next(filter(None, telling), sentences[0])


def what_it_did(abstract: str) -> str:
    """Return that sentence without a run-up that says nothing of this paper."""
    sentence = informative_sentence(abstract)
    statement = _RUN_UP.sub("", sentence)
    return statement[:1].upper() + statement[1:]


def first_clause(text: str) -> str:
    """Return a sentence up to its first comma, semicolon, colon or dash."""
    return _CLAUSE_END.split(text, maxsplit=1)[0]
