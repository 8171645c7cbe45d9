"""The authors' repository: the one address of a code host that the authors give for their code.

Abstract and comment are the authors' own words, so any single address in them counts. A whole
paper names the repositories of others too, so there only a sentence that offers code counts.
"""

import re
from collections.abc import Iterable

_HOSTS = ("github.com", "gitlab.com", "bitbucket.org", "codeberg.org", "huggingface.co")
_ANY_HOST = "|".join(map(re.escape, _HOSTS))
_ADDRESS = re.compile(
    r"(?<![\w./-])(?:https?://)?(?:www\.)?"
    rf"(?P<host>{_ANY_HOST})"
    r"/(?P<owner>[\w.-]{1,64})/(?P<name>[\w.-]{1,100})",
    re.IGNORECASE,
)
_CODE = r"(?:code|codes|implementation|repository|source|project(?: page)?|models?|data(?:sets?)?)"
_GIVEN = r"(?:available|released?|open[- ]?sourced?|published|provided?|accessible|found|hosted)"
_OFFER = re.compile(
    rf"\bour (?:\w+ ){{0,3}}{_CODE}\b"
    r"|\bwe (?:\w+ ){0,2}(?:release|open[- ]?source|publish|share|provide|make)\b"
    rf"|\b{_CODE}\b[^.]{{0,80}}\b{_GIVEN}\b"
    # Possessive: what stands before "Code:" is read once, however long it is.
    rf"|^\W*+(?:\d++\W*+)?(?:{_CODE}|github)\s*+:?\s*+(?:https?://|www\.|{_ANY_HOST})",
    re.IGNORECASE,
)
# Others' code: what an experiment uses, and what a baseline's authors offer.
_THEIRS = re.compile(
    r"\b(?:official|their|authors?\W{0,2}s?|original|baselines?|we (?:used?|adopt|follow|build on)|"
    r"based on|provided by|taken from|et al)\b",
    re.IGNORECASE,
)


def repository(abstract: str, comment: str) -> str:
    """Return its https address, or "" if none is named, or several: one may be another's."""
    return _only(_addresses(f"{abstract}\n{comment}"))


def offered(sentences: Iterable[str]) -> str:
    """The repository that sentences of a paper's text offer as its code; "" for none or several."""
    named: dict[str, str] = {}
    for sentence in sentences:
        if _OFFER.search(sentence) and not _THEIRS.search(sentence):
            named |= _addresses(sentence)
    return _only(named)


def _addresses(text: str) -> dict[str, str]:
    """Every address of a code host in a text, by its lower case."""
    folded = text.lower()
    if not any(host in folded for host in _HOSTS):
        return {}
    named: dict[str, str] = {}
    for match in _ADDRESS.finditer(text):
        name = match["name"].rstrip(".-_").removesuffix(".git")
        if name:
            address = f"https://{match['host'].lower()}/{match['owner']}/{name}"
            named.setdefault(address.lower(), address)
    return named


def _only(named: dict[str, str]) -> str:
    return next(iter(named.values())) if len(named) == 1 else ""
