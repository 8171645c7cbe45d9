"""The names arXiv gives papers and categories.

https://info.arxiv.org/help/arxiv_identifier.html, https://arxiv.org/category_taxonomy
"""

import re
import unicodedata
from collections.abc import Iterable, Iterator
from contextlib import suppress
from urllib.parse import unquote

from assay_common.text import clean
from webapp.papers.folding import UNSPACED

# Bounded, so that every name that is accepted fits the database's 32 characters.
_SUBJECT_CLASS = r"\.[A-Za-z-]{2,10}"
CATEGORY = rf"[a-z]{{1,10}}(?:-[a-z]{{1,8}})?(?:{_SUBJECT_CLASS})?"  # cs.CL, hep-th
_MONTH = r"(?:0[1-9]|1[0-2])"
_SINCE_2007 = rf"[0-9]{{2}}{_MONTH}\.[0-9]{{4,5}}"  # 2512.14925
_UNTIL_2007 = rf"{CATEGORY}/[0-9]{{2}}{_MONTH}[0-9]{{3}}"  # hep-th/9901001
IDENTIFIER = rf"(?:{_SINCE_2007}|{_UNTIL_2007})"
VERSION = "[vV][1-9][0-9]{0,2}"
# Sites that have a page of an arXiv paper, up to its identifier.
_SITES = (
    r"(?:(?:www|export|browse|[a-z]{2})\.)?arxiv\.org/(?:abs|pdf|html|format|ps|src|e-print|tb)/",
    r"(?:xxx\.)?(?:lanl\.gov|itp\.ac\.cn)/(?:abs|pdf)/",
    r"(?:www\.)?ar5iv(?:\.labs\.arxiv)?\.org/(?:abs|html|papers)/",
    r"(?:www\.)?(?:huggingface\.co|hf\.co)/papers/",
    r"(?:www\.)?alphaxiv\.org/(?:[a-z]{2}/)?(?:abs|pdf|html|overview|audio|review)/",
    r"(?:www\.)?papers\.cool/arxiv/",
    r"(?:www\.|api\.)?semanticscholar\.org/(?:graph/v1/)?(?:paper/)?arxiv[:/]",
    r"(?:www\.)?(?:scirate\.com/arxiv|arxiv-vanity\.com/papers|emergentmind\.com/papers)/",
    r"(?:www\.)?(?:talk2arxiv\.org/(?:abs|pdf)|inspirehep\.net/(?:api/)?arxiv)/",
    r"ui\.adsabs\.harvard\.edu/abs/",
    r"(?:dx\.)?doi\.org/10\.48550/arxiv\.",
)
_PREFIX = (
    rf"(?:oai:arXiv\.org:|(?:doi:\s?)?10\.48550/arxiv\.|(?:https?:/{{1,2}})?(?:{'|'.join(_SITES)}))?"
    r"(?:arXiv:\s?)?"
)
# The classes and the day that arXiv prints behind an identifier: [cs.CL] 5 Jan 2026.
_STAMP = r"(?:\s{0,3}\[[^\[\]]{1,60}\](?:\s{1,3}\d{1,2} [A-Za-z]{3} \d{4})?)?"
_WHOLE = re.compile(
    rf"(?P<prefix>{_PREFIX})(?P<id>{IDENTIFIER})(?P<version>{VERSION})?"
    rf"(?:\.pdf|\.html)?/?(?P<ending>[?#].*)?{_STAMP}",
    re.IGNORECASE | re.DOTALL,
)
# In running text: a DOI of somebody else may look like one, and so may a sum of money.
_OTHER_DOI = re.compile(r"\b10\.(?!48550/)\d{4,9}/\S{1,300}")
_IN_WORD = rf"[^\W{UNSPACED}]"  # Chinese has no blanks around an identifier
_BEFORE = rf"(?<=arxiv)[.:]?|(?<![.$€£¥+-])(?<!{_IN_WORD})(?:(?<!,)|(?<=[\d.v]{{4}},))"
_BEHIND = r"\.\d|\s?(?:%|°|€|£|[万亿]|[美欧日]?元|USD\b|EUR\b|GBP\b|dollars?\b|euros?\b)"
_ANYWHERE = re.compile(
    rf"(?:{_BEFORE})(?P<id>{IDENTIFIER})(?P<version>{VERSION})?(?!{_IN_WORD}|{_BEHIND})",
    re.IGNORECASE,
)
# What stands around an identifier, of sentences and of Markdown.
_AROUND = "<>()[]\"'“”‘’`*。、…「」『』《》【】.,:;!? \t\r\n"
_DBLP = re.compile(r"\bjournals/corr/abs-(\d{4})-(\d{4,5})\b", re.IGNORECASE)


def identifiers_in(text: str, *, strict: bool = False) -> list[str]:
    """Return the identifiers of papers in `text`, each once, in order.

    Running text may have prices and DOIs of other publishers, which are none. With `strict`, `text`
    is a single reference to a paper: bare, `arXiv:…`, an OAI name, arXiv's DOI, or an address where
    papers are read.
    """
    return list(dict.fromkeys(identifier for identifier, _ in _read(text, strict=strict)))


def parse_identifier(text: str) -> tuple[str, int | None]:
    """Return the identifier and version of the paper that `text` refers to, read strictly.

    Raises ValueError when it is no reference to a paper.
    """
    for identifier in _read(text[:2_000], strict=True):
        return identifier
    raise ValueError(f"{text[:80]!r} is not an arXiv identifier")


def _read(text: str, *, strict: bool) -> Iterator[tuple[str, int | None]]:
    text = clean(unicodedata.normalize("NFKC", unquote(text)))
    if strict:
        whole = _WHOLE.fullmatch(text.lstrip(_AROUND).rstrip(_AROUND.replace("]", "")))
        whole = whole or _WHOLE.fullmatch(text.strip(_AROUND))
        # A bare identifier has no query and no fragment.
        matches = iter([whole] if whole and (whole["prefix"] or not whole["ending"]) else [])
    else:
        text = _DBLP.sub(r"arXiv:\1.\2", text)
        matches = _ANYWHERE.finditer(_OTHER_DOI.sub(" ", text))
    for match in matches:
        identifier = re.sub(f"{_SUBJECT_CLASS}/", "/", match["id"])
        if _can_exist(identifier):
            # Old identifiers lose their subject class, as arXiv itself writes them.
            archive, slash, number = identifier.rpartition("/")
            version = int(match["version"][1:]) if match["version"] else None
            yield f"{archive.lower()}{slash}{number}", version


def _can_exist(identifier: str) -> bool:
    """True if arXiv can have identifiers with that month and that many digits."""
    archive, _, number = identifier.rpartition("/")
    if archive:
        return archive.lower() in _ARCHIVES and (number[:2] >= "91" or number[:4] <= "0703")
    month, _, digits = number.partition(".")
    return "0704" <= month < "5000" and len(digits) == (4 if month < "1501" else 5)


# Archives of identifiers until March 2007.
_ARCHIVES = frozenset(
    {"acc-phys", "adap-org", "alg-geom", "ao-sci", "astro-ph", "atom-ph", "bayes-an"}
    | {"chao-dyn", "chem-ph", "cmp-lg", "comp-gas", "cond-mat", "cs", "dg-ga", "funct-an"}
    | {"gr-qc", "hep-ex", "hep-lat", "hep-ph", "hep-th", "math", "math-ph", "mtrl-th", "nlin"}
    | {"nucl-ex", "nucl-th", "patt-sol", "physics", "plasm-ph", "q-alg", "q-bio", "quant-ph"}
    | {"solv-int", "supr-con"}
)


# https://arxiv.org/category_taxonomy: archives that are categories, and those that have subjects.
_UNDIVIDED = frozenset(
    {"gr-qc", "hep-ex", "hep-lat", "hep-ph", "hep-th", "math-ph", "nucl-ex", "nucl-th", "quant-ph"}
    | {"astro-ph", "cond-mat"}  # before 2009
)
_LETTERED = frozenset(
    {"astro-ph", "cs", "econ", "eess", "math", "nlin", "q-bio", "q-fin", "stat"}
)  # with subjects of two letters


def category_in(text: str) -> str:
    """Return the category that `text` names in any case, or "" if it is another word."""
    archive, dot, subject = text.strip().lower().partition(".")
    if not dot:
        return archive if archive in _UNDIVIDED else ""
    if archive in _LETTERED and re.fullmatch("[a-z]{2}", subject):
        return f"{archive}.{subject.upper()}"
    is_spelt = archive in {"cond-mat", "physics"} and re.fullmatch("[a-z-]{4,9}", subject)
    return f"{archive}.{subject}" if is_spelt else ""


_NO_CATEGORY = "{!r} is no arXiv category; write for instance cs.CL"
# An address of a category's papers at arXiv.
LISTING = re.compile(
    r"(?:https?://)?(?:\w+\.)?arxiv\.org/(?:list|archive|rss|atom)/([\w.-]+)(?:[/?]\S*)?",
    re.IGNORECASE,
)
_BETWEEN = re.compile(r"[\s,;、。|/&+\"'“”‘’()\[\]<>]+|\b(?:and|or)\b", re.IGNORECASE)


def categories_in(text: str) -> list[str]:
    """Return the words of a list of categories, whatever stands between them."""
    text = LISTING.sub(r" \1 ", unicodedata.normalize("NFKC", text))
    return list(filter(None, (word.strip(".:") for word in _BETWEEN.split(text))))


def spelt_category(text: str) -> str:
    """Return a category or an archive in arXiv's spelling. Raises ValueError for other words."""
    archive = text.lower()
    is_archive = archive in _ARCHIVES or archive in _LETTERED
    if not is_archive and "." not in text:
        raise ValueError(_NO_CATEGORY.format(text[:40]))
    return checked_category(category_in(text) or (archive if is_archive else text))


def known_categories(words: Iterable[str]) -> list[str]:
    """Return the words that `spelt_category` knows, spelt so."""
    known = []
    for word in words:
        with suppress(ValueError):
            known.append(spelt_category(word))
    return known


def category_names(terms: Iterable[str]) -> tuple[str, ...]:
    """The terms that can be arXiv categories, each once, in order.

    The API's answers list MSC and ACM classes beside them (`68T50`, `I.2.7`).
    """
    names = map(str.strip, terms)
    return tuple(dict.fromkeys(name for name in names if re.fullmatch(CATEGORY, name)))


def checked_category(text: str) -> str:
    """`text`, an arXiv category: `cs.CL`, `hep-th`, `cond-mat.str-el`. Raises ValueError."""
    if not re.fullmatch(CATEGORY, text):
        raise ValueError(_NO_CATEGORY.format(text[:40]))
    return text
