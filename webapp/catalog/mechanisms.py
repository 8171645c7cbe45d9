"""The mechanism that a paper proposes, as far as its own words name it.

A figure of the wrong mechanism beside a paper is worse than none, so only names count: a phrase of
a single part, in the title or in the sentence that says what is proposed. Two words that merely
occur together (`a & b`) are no evidence, nor is a name that the paper compares itself with.
"""

import re

from methods.spec import Mechanism, Method
from webapp.catalog import phrases
from webapp.papers.proposal import proposing_sentence

# Words before the name of another's work, in the same clause.
_OTHERS = re.compile(
    r"\b(?:than|unlike|over|outperform\w*|compared? (?:to|with)|against|beyond|replac\w+|"
    r"instead of|such as|like|including|e\.g\.|existing|prior|previous|limitation\w* of|"
    r"extend\w*)\b[^,;:]*$",
    re.IGNORECASE,
)


# Words that many mechanisms of a family share; stems, without their endings.
_SHARED = re.compile(
    r"(?:adaptive|attention|block|budget|cache|chunk|compress|critical|drop|dynamic|exact|fixed|"
    r"for|frame|hierarch|image|important|in|key|kv|layer|learn|level|merg|model|of|page|pattern|"
    r"pool|progressive|prun|query|recent|reduc|retriev|score|segment|select|sentence|semantic|"
    r"similar|spars|static|temporal|the|token|top|k|p|video|vision|visual|window|value)\w*",
    re.IGNORECASE,
)


def _is_distinctive(phrase: str) -> bool:
    """True if a phrase has a word that is not common to many mechanisms."""
    return any(not _SHARED.fullmatch(word) for word in re.findall(r"\w+", phrase))


def named(method: Method, title: str, abstract: str) -> Mechanism | None:
    """The mechanism whose name the title gives, else the proposing sentence; None if not one."""
    for text in (title, proposing_sentence(abstract)):
        mechanisms = [mechanism for mechanism in method.mechanisms if _is_named(mechanism, text)]
        if mechanisms:
            return mechanisms[0] if len(mechanisms) == 1 else None
    return None


def _is_named(mechanism: Mechanism, text: str) -> bool:
    for phrase in mechanism.phrases:
        if " & " in phrase or "~" in phrase:
            continue
        match = phrases.pattern(phrase).search(text)
        if match and not _OTHERS.search(text[: match.start()]) and _is_distinctive(match[0]):
            return True
    return False
