"""Recognition of the paper's own method in row labels and heads, and of columns without results."""

import re
from collections.abc import Iterable, Sequence

from .metrics import is_benchmark, undecorated

# A whole head that tells what was varied, not what came out.
_ATTRIBUTE = re.compile(
    r"#.*|(?:params?|parameters|(?:model )?size|steps?|epochs?|NFE|dim\.?|dimension|shots?|year|"
    r"venue|layers?|heads?|samples|tokens|batch(?: size)?|lr|ratio|rank|budget|cost|k|n|h)\.?",
    re.IGNORECASE,
)
_DIFFERENCE = re.compile(
    r"(?:Δ|↑|↓|(?:(?:abs(?:olute|\.)?|rel(?:ative|\.)?) )?"
    r"(?:improv(?:ements?|\.)?|gains?|diff(?:erences?|\.)?|decrease|increase|delta)(?![-\w])).*",
    re.IGNORECASE,
)
_OURS = re.compile(
    r"\b[Oo]urs\b|\bOURS\b|\b(?:[Oo]ur|[Pp]roposed) (?:full )?(?:method|model|approach|framework)\b"
)
# What others published, beside which "(ours)" is a repetition.
_OFFICIAL = re.compile(r"\((?:official|original|reported|published|paper)\b", re.IGNORECASE)
# A baseline that the authors ran or changed themselves.
_RERUN = re.compile(
    r"\b(?:our )?(?:re-?(?:implement\w*|produc\w*|run|trained|eval\w*)|impl\w*\.?|baselines?)\b",
    re.IGNORECASE,
)
_ALSO = r"(?:(?:further|also|additionally|therefore|thus|hence) )?"
_VERBS = "propose|introduce|present|develop|design|call|name|describe"
_PROPOSED = re.compile(
    rf"\b(?:we|this (?:paper|work)) {_ALSO}(?:{_VERBS})s?\b[^.;]{{0,260}}", re.IGNORECASE
)
_NAME = re.compile(
    r"\b(?:[A-Z][A-Za-z]*[A-Z0-9][\w+\-]*|[A-Z]{2,}[\w+\-]*|[A-Z][a-z]+(?:-[A-Z]\w*)+)"
)
# "We introduce Heron, a …": what stands between verb and comma is a name whatever its letters.
_INTRODUCED = re.compile(
    rf"\b[Ww]e {_ALSO}(?:{_VERBS}) (?:the )?(?P<name>[A-Z][\w.+-]*(?: [\d.]+\w?)?)"
    r"(?=,| \(|:| —| –| \bas\b| which\b| that\b)"
)
# "… and Heron, an alignment framework that …"
_APPOSED = re.compile(
    rf"(?P<name>{_NAME.pattern}) ?, an? (?:[\w-]+ ){{0,4}}?"
    r"(?:framework|method|approach|algorithm|model|architecture|system|network|strategy)\b"
)
_CALLED = re.compile(
    r"\b(?:called|named|dubbed|termed|coined|namely)\s+[\"“']?(?P<name>[A-Z][\w+-]*[A-Z0-9]\w*|[A-Z]{2,})"
)
_ABLATED = re.compile(
    r"\bw/o\b|\bwithout\b|(?:^|\s)[-−–—]\s?(?!w/(?!o)|with\b)(?=\w)|\bno[- ]|-no[a-z]"
    r"|\b(?:minus|ablat\w+|removed?|replac\w+|only)\b"
)
# Proposals of a paper that are not methods and have no row among them.
_NO_METHOD = re.compile(
    r"\w*(?:[Bb]ench(?:mark)?|[Dd]ata ?[Ss]et|[Cc]orpus|Arena|Eval)(?:-\w+)?"
    r"|\w*(?:-|[a-z]{2})\d+[KMB]"
)
_DATA = r"(?:benchmarks?|data ?sets?|corpus|corpora|test ?bed|suite|taxonomy|survey|leaderboard)\b"
_DATA_NOUN = re.compile(rf"^(?:an? |the )?(?:[\w–-]+ ){{0,6}}{_DATA}", re.IGNORECASE)
_IS_DATA = re.compile(
    rf"\W+(?:\([^)]*\)\W+)?(?:to our knowledge,? )?(?:a|an|the|the first)\s"
    rf"(?:[\w,–/-]+\s){{0,6}}?{_DATA}",
    re.IGNORECASE,
)
_ACHIEVES = (
    r"\s(?:\w+ly )?(?:achieves?|outperforms?|improves?|reaches|surpasses|reduces|attains|exceeds|"
    r"delivers|yields|obtains|consistently)\b"
)
_NAMED_OURS = re.compile(r"(?P<name>[A-Z][\w .+-]{1,40}?)\W*\((?:[Oo]urs|OURS)\)\W*")
_STANDS_FOR = re.compile(
    r"\b(?P<short>[A-Z][\w-]{0,9})(?: ?= ?| stands for | denotes | is short for )(?P<name>[\w-]+)"
)
_IS_OURS = re.compile(r"\b([A-Z][A-Z0-9]\w*|[A-Z][a-z]+[A-Z]\w*) is (?:our|the proposed)\b")
# Words behind a name that make it a part of the method: "Heron fusion layer".
_PART = (
    r"(?-i: (?!with|using|on|at|in|for|large|small|base|full|final|model|method|framework)[a-z]{3})"
)
_COMMON = {"LLM", "LLMs", "VLM", "VLMs", "MLLM", "MLLMs", "RL", "AI", "NLP", "GPU", "CPU", "API"}
_COMMON |= {"CNN", "GAN", "MoE", "RAG", "SOTA", "LoRA", "RLHF", "DNN", "DNNs", "3D", "2D", "QA"}
_COMMON |= {"EEG", "ECG", "MRI", "fMRI", "CT", "OCR", "ASR", "NLI", "SQL", "VQA", "MCP"}


def proposed_names(title: str, abstract: str) -> list[str]:
    """Return the names that a paper gives its own method, at most four.

    They are the title, if it is a name or has one before a colon or dash; what the abstract says
    that it proposes, either in capitals or between "we introduce" and a comma or bracket; and a
    name in the title that the abstract says achieves something. Data sets and benchmarks are
    excluded.
    """
    names: list[str] = []
    head, separator, rest = _partition(title)
    is_data = bool(_DATA_NOUN.search(rest))
    if (separator or not re.search(r"\s[a-z]", title)) and len(head.split()) <= 3:
        names.append(head.strip())
    for match in _INTRODUCED.finditer(abstract):
        names.append(match["name"])
    for sentence in _PROPOSED.findall(abstract):
        names += [name for name in _NAME.findall(sentence) if name not in _COMMON][:1]
        names += [match["name"] for match in _APPOSED.finditer(sentence)]
    names += [match["name"] for match in _CALLED.finditer(abstract)]
    names += [
        name
        for name in dict.fromkeys(_NAME.findall(title))
        if re.search(rf"(?<!than )(?<![\w-]){re.escape(name)}{_ACHIEVES}", abstract)
    ]
    if is_data:
        names = [name for name in names if name != head.strip()]
    methods = [name for name in dict.fromkeys(names) if _is_plausible_method(name, abstract)]
    return methods[:4]


def _is_plausible_method(name: str, abstract: str) -> bool:
    if len(name) < 2 or name in _COMMON or is_benchmark(name) or _NO_METHOD.fullmatch(name):
        return False
    place = abstract.find(name)
    return place < 0 or not _IS_DATA.match(abstract, place + len(name))


def names_in_tables(
    names: Sequence[str], labels: Iterable[str], captions: Iterable[str]
) -> list[str]:
    """Return the names of the paper's own method, with those that tables and captions add.

    A label "X (ours)" names it in every table, and so does a caption that says "RG =
    ReasoningGuard" or "RG is our method".
    """
    labels = [*labels]
    published = {_OFFICIAL.split(label)[0].strip() for label in labels if _OFFICIAL.search(label)}
    ours = (match["name"] for label in labels if (match := _NAMED_OURS.fullmatch(label)))
    more = [name for name in ours if name not in published]
    for caption in captions:
        for match in _STANDS_FOR.finditer(caption):
            if match["name"] in names:
                more.append(match["short"])
        more += _IS_OURS.findall(caption)
    added = [name for name in dict.fromkeys(more) if len(name) > 1 and name not in _COMMON]
    return [*names, *(name for name in added if not is_benchmark(name))][:8]


def _partition(title: str) -> tuple[str, str, str]:
    """Split a title at its first colon, or dash between spaces."""
    match = re.search(r":\s|\s[-–—]+\s", title)
    if match is None:
        return title, "", ""
    return title[: match.start()], match[0], title[match.end() :]


def is_own(label: Sequence[str], names: Sequence[str]) -> bool:
    """True if a row label or head path names the paper's own method.

    "w/o X" is its ablation and "our X baseline" another's method; "+ X" and "A + X" are its own.
    """
    last = label[-1] if label else ""
    is_other = bool(_ABLATED.search(last) or _RERUN.search(last))
    if _OURS.search(last) and not is_other:
        return True
    text = " ".join(label)
    if is_other or _ABLATED.search(text) or _RERUN.search(text):
        return False
    if _OURS.search(text) or last in {"Proposed", "This work", "This paper"}:
        return True
    texts = [last] if last.startswith(("+", "＋")) else label
    return any(_names(text, name) for text in texts for name in names)


def _names(label: str, name: str) -> bool:
    """True if a label begins with the name of a method, or adds it to another's."""
    before = r"(?:[\w.-]+/|our |full |complete |(?:.* )?(?:\+|w/|with) ?)?"
    return bool(re.match(rf"{before}{re.escape(name)}(?!\w|{_PART})", label, re.IGNORECASE))


def is_official(label: Sequence[str]) -> bool:
    """True if a label is of a result that others published: "MLP (official)"."""
    return any(_OFFICIAL.search(text) for text in label)


def is_own_head(head_path: Sequence[str], names: Sequence[str]) -> bool:
    """True if a head above a column, group heads included, names the paper's own method."""
    return any(is_own([text], names) for text in head_path)


def is_difference(texts: Sequence[str]) -> bool:
    """True if a label or head path is of a difference: "Δ", "Improvement"; "Diff-3B" is a model."""
    return any(_DIFFERENCE.fullmatch(text.strip()) for text in texts)


def is_attribute(head_path: Sequence[str]) -> bool:
    """True if the innermost head names a setting, such as a size or a step count, not a result."""
    return any(_ATTRIBUTE.fullmatch(undecorated(text)) for text in head_path[-1:])
