"""What a value of a table measures, where the table's own cells or caption name it.

A benchmark or metric counts only as a whole head, a whole row label, or the only one that the
caption names; "Acc." under "MATH" is both. What is not named stays unnamed: nothing is guessed.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import TypeVar

from webapp.core.tables import table

from .reading import Table, Value

_DATA = table(__file__, "names.toml")
_DECORATION = re.compile(r"\s*(?:[↑↓†‡*]|\(\s*[↑↓%]\s*\)|\((?:%|ms|s|GB|MB|M|G|T)\)|\[[^\]]*\])\s*")
# A whole head that tells what was varied, not what came out.
_ATTRIBUTE = re.compile(
    r"#.*|(?:params?|parameters|(?:model )?size|steps?|epochs?|NFE|dim\.?|dimension|shots?|year|"
    r"venue|layers?|heads?|samples|tokens|batch(?: size)?|lr|ratio|rank|budget|cost|k|n|h)\.?",
    re.IGNORECASE,
)
_DATA_SET = re.compile(r"(?:data ?-?sets?|benchmarks?|test sets?|corpus|corpora)", re.IGNORECASE)
_SETTING = re.compile(
    r"(?:\d+|zero|one|few)[- ]?shots?|CoT|val(?:idation)?(?: set)?|test(?: set)?|dev(?: set)?|"
    r"(?:maj|avg|cons)@\d+|\d+[kK]",
    re.IGNORECASE,
)
_KIND = re.compile(
    r"(?:.*\b)?(?:baselines?|models?|methods?|approaches|systems|ours|LLMs|VLMs)\b\W*",
    re.IGNORECASE,
)
_TOTAL = re.compile(r"(?:avg|average|mean|overall|total|all|macro|micro)\b", re.IGNORECASE)
# A sentence of a caption that says what its numbers are.
_SAYS_METRIC = re.compile(
    r"\b(?:we report|reported|reporting|expressed in|measured (?:by|in|with|as)|in terms of|"
    r"(?:results|numbers|values|scores|entries|cells|metrics?) (?:is|are|show|denote|represent)|"
    r"evaluated (?:by|with|using))\b",
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
# A baseline that the authors ran or changed themselves.
_RERUN = re.compile(
    r"\b(?:our )?(?:re-?(?:implement\w*|produc\w*|run|trained|eval\w*)|impl\w*\.?|baselines?)\b",
    re.IGNORECASE,
)
_VERBS = "propose|introduce|present|develop|design|call|name|describe"
_PROPOSED = re.compile(
    rf"\b(?:we|this (?:paper|work)) (?:{_VERBS})s?\b[^.;]{{0,160}}", re.IGNORECASE
)
_NAME = re.compile(
    r"\b(?:[A-Z][A-Za-z]*[A-Z0-9][\w+\-]*|[A-Z]{2,}[\w+\-]*|[A-Z][a-z]+(?:-[A-Z]\w*)+)"
)
# "We introduce Heron, a …": what stands between verb and comma is a name whatever its letters.
_INTRODUCED = re.compile(
    rf"\b[Ww]e (?:{_VERBS}) (?:the )?(?P<name>[A-Z][\w.+-]*(?: [\d.]+\w?)?)"
    r"(?=,| \(|:| —| –| \bas\b| which\b| that\b)"
)
_CALLED = re.compile(
    r"\b(?:called|named|dubbed|termed|coined|namely)\s+[\"“']?(?P<name>[A-Z][\w+-]*[A-Z0-9]\w*|[A-Z]{2,})"
)
_ABLATED = re.compile(
    r"\bw/o\b|\bwithout\b|(?:^|\s)[-−–—]\s?(?=\w)|\bno[- ]|-no[a-z]"
    r"|\b(?:minus|ablat\w+|removed?|replac\w+|only)\b"
)
# What a paper proposes that is no method and has no row among them.
_NO_METHOD = re.compile(
    r"\w*(?:[Bb]ench(?:mark)?|[Dd]ata ?[Ss]et|[Cc]orpus|Arena|Eval)(?:-\w+)?|\w+-?\d+[KMB]"
)
_IS_DATA = re.compile(
    r"\W+(?:\([^)]*\)\W+)?(?:a|an|the|the first)\s(?:[\w,-]+\s){0,6}?"
    r"(?:benchmarks?|data ?sets?|corpus|corpora|test ?bed|suite|taxonomy|survey|leaderboard)\b",
    re.IGNORECASE,
)
_ACHIEVES = (
    r"\s(?:\w+ly )?(?:achieves?|outperforms?|improves?|reaches|surpasses|reduces|attains|exceeds|"
    r"delivers|yields|obtains|consistently)\b"
)
_COMMON = {"LLM", "LLMs", "VLM", "VLMs", "MLLM", "MLLMs", "RL", "AI", "NLP", "GPU", "CPU", "API"}
_COMMON |= {"CNN", "GAN", "MoE", "RAG", "SOTA", "LoRA", "RLHF", "DNN", "DNNs", "3D", "2D", "QA"}


@dataclass(frozen=True)
class Metric:
    """A metric by its usual name, and which way is better."""

    name: str
    better: str


@dataclass(frozen=True)
class Reported:
    """A value all of whose fields the table names: who, on what, by what, and in which setting."""

    value: Value
    subject: str
    benchmark: str
    metric: Metric
    setting: str  # what else stands over or beside it


@cache
def benchmark(text: str) -> str | None:
    """The benchmark that a head or label names, decorations and splits apart; else None."""
    return _benchmarks().get(_bare(text).casefold())


@cache
def metric(text: str) -> Metric | None:
    """The metric that a head or label names; None for any other text."""
    bare = _bare(text).replace(" @", "@")
    return _metrics().get(bare) or _metrics().get(bare.casefold())


def direction(head_path: Sequence[str]) -> str:
    """Which way is better under heads: "higher" or "lower" by arrow or metric, "" if unknown."""
    arrows = {better for sign, better in _ARROWS.items() if any(sign in text for text in head_path)}
    return _only(arrows or {m.better for text in head_path if (m := metric(text))}) or ""


def direction_of_caption(caption: str) -> str:
    """Which way is better of all values of a table, where its first sentence tells; else ""."""
    first = re.split(r"(?<=[^.]{3})\.\s", caption)[0]
    arrows = {better for sign, better in _ARROWS.items() if sign in first}
    named = {_metrics()[name].better for name in _in_caption(first, tuple(_metrics()))}
    return _only(arrows | named) or ""


_ARROWS = {"↑": "higher", "↓": "lower"}


@cache
def _benchmarks() -> dict[str, str]:
    return {name.casefold(): names[0] for names in _DATA["benchmarks"] for name in names}


@cache
def _metrics() -> dict[str, Metric]:
    known: dict[str, Metric] = {}
    for entry in _DATA["metrics"]:
        for written in entry["written"]:
            # An abbreviation in capitals is another word in small letters: SR, ASR, EM.
            key = written if written.isupper() and len(written) < 4 else written.casefold()
            known[key] = known[written] = Metric(entry["name"], entry["better"])
    return known


def _bare(text: str) -> str:
    """A head without arrows, units in brackets and marks."""
    return " ".join(_DECORATION.sub(" ", text).split())


def _in_caption(caption: str, names: Sequence[str]) -> set[str]:
    """Those of the names that a caption holds as whole words; abbreviations as they are written."""
    return {
        name
        for name in names
        if re.search(
            rf"(?<![\w-]){re.escape(name)}(?![\w+-])",
            caption,
            0 if name.isupper() and len(name) < 4 else re.IGNORECASE,
        )
    }


def reported(read: Table) -> list[Reported]:
    """The values of a table all of whose fields are sure, in its order.

    The subject is the row label or, where the rows are benchmarks or settings, the head that is
    neither benchmark nor metric. What no head and no label names, the caption may: a benchmark
    where every head is a metric, a metric where no head is one, in its first sentence or in one
    that says what is reported. Attributes (parameters, steps) and differences are no results.
    """
    first, *further = re.split(r"(?<=[^.]{3})\.\s", read.grid.caption)
    heads = {text for value in read.values for text in value.head_path[-1:]}
    corner = [known for text in read.stub_heads if (known := metric(text))]
    said = " ".join([first, *(sentence for sentence in further if _SAYS_METRIC.search(sentence))])
    by_caption = _only(set(corner) or {_metrics()[n] for n in _in_caption(said, tuple(_metrics()))})
    on_caption = _only({_benchmarks()[n.casefold()] for n in _in_caption(first, _written())})
    is_metric_head = [bool(_parts(text)[1]) for text in heads]
    default = (
        on_caption if heads and all(is_metric_head) else None,
        None if any(is_metric_head) else by_caption,
    )
    named = {text for text in _data_sets(read) if not _parts(text)[1]}
    results = (_reported(value, read.stub_heads, named, *default) for value in read.values)
    return [result for result in results if result is not None]


def _data_sets(read: Table) -> set[str]:
    """Labels and heads that a table itself calls data sets or benchmarks, by the head over them."""
    columns = [
        c for c in read.stubs[0] if any(_DATA_SET.fullmatch(_bare(t)) for t in read.head_path(c))
    ]
    cells = (read.grid.rows[row][c] for row in {v.cell.row for v in read.values} for c in columns)
    named = {cell.text for cell in cells if cell is not None}
    for value in read.values:
        if len(value.head_path) == 2 and _DATA_SET.fullmatch(_bare(value.head_path[0])):
            named.add(value.head_path[1])
    return {text for text in named if _WORDS.search(text) and not _TOTAL.match(text)}


T = TypeVar("T")
_WORDS = re.compile("[A-Za-z]{2}")  # a name, not a number


def _only(known: set[T]) -> T | None:
    """The only member of a set, or None."""
    return next(iter(known)) if len(known) == 1 else None


@cache
def _written() -> tuple[str, ...]:
    return tuple(name for names in _DATA["benchmarks"] for name in names)


def _parts(text: str) -> tuple[str | None, Metric | None, str]:
    """The benchmark and the metric that a head or label names, and what it says besides.

    "MMLU (5-shot, acc)" is MMLU, accuracy and "5-shot". Other words beside a benchmark may name a
    part of it, which is another benchmark: such a text names neither.
    """
    known, by = benchmark(text), metric(text)
    if known or by:
        return known, by, ""
    bare = _bare(text)
    for end in (match.start() for match in re.finditer(r"\s*[(\[]|\s+|$", bare)):
        known = _benchmarks().get(bare[:end].casefold())
        rest = bare[end:].strip()
        in_brackets = re.fullmatch(r"[(\[]([^()\[\]]*)[)\]]", rest)
        words = [
            word.strip() for word in re.split(r"[,;]", in_brackets[1] if in_brackets else rest)
        ]
        by = next((found for word in words if (found := metric(word))), None)
        others = [word for word in words if not metric(word)]
        if known and rest and all(_SETTING.fullmatch(word) for word in others):
            return known, by, ", ".join(others)
    in_brackets = re.fullmatch(r"(.+?)\s*[(\[]([^()\[\]]*)[)\]]", bare)
    if in_brackets and (by := metric(in_brackets[1])) and benchmark(in_brackets[2]):
        return benchmark(in_brackets[2]), by, ""
    return None, None, ""


def _reported(
    value: Value,
    stub_heads: Sequence[str],
    named: set[str],
    benchmark_: str | None,
    metric_: Metric | None,
) -> Reported | None:
    texts = [*value.row_label, *value.head_path]
    parts = {text: _parts(text) for text in texts}
    on = {text: name for text in texts if (name := parts[text][0])}
    on = on or {text: _bare(text) for text in texts if text in named}
    by = {text: known for text in texts if (known := parts[text][1])}
    name = _only(set(on.values())) if on else benchmark_
    measure = _only(set(by.values())) if by else metric_
    labels = [text for text in value.row_label if text not in on and text not in by]
    heads = [text for text in value.head_path if text not in on and text not in by]
    # The innermost label that is neither a benchmark nor a metric says whose number it is; among
    # heads the outermost, unless it only says of what kind those under it are.
    if len(heads) > 1 and _KIND.fullmatch(heads[0]):
        heads = [*heads[1:], heads[0]]
    worded = [text for text in labels if _WORDS.search(text)] or heads[:1]
    subject = worded[-1] if worded else ""
    labels, heads = ([text for text in kept if text != subject] for kept in (labels, heads))
    is_result = not is_difference(texts) and not any(
        _ATTRIBUTE.fullmatch(_bare(text)) for text in heads
    )
    if name is None or measure is None or not is_result or not _WORDS.search(subject):
        return None
    besides = [said for text in texts if (said := parts[text][2])]
    # A number beside a label is a setting of what its own head says: "H = 1440".
    over = dict(zip(value.row_label[len(value.block) :], stub_heads, strict=False))
    labels = [
        f"{over[text]} = {text}" if text in over and not _WORDS.search(text) else text
        for text in labels
    ]
    setting = ", ".join([*labels, *heads, *besides])
    return Reported(value, subject, name[:80], measure, setting)


def names_of(title: str, abstract: str) -> list[str]:
    """What a paper calls its own method.

    The title, where it is a name or has one before a colon or dash; what the abstract says that it
    proposes: a name in capitals, or any between "we introduce" and a comma or bracket; and a name
    of the title that the abstract says to achieve something. Data sets and benchmarks are none.
    """
    names: list[str] = []
    head, separator, _ = _partition(title)
    if (separator or not re.search(r"\s[a-z]", title)) and len(head.split()) <= 3:
        names.append(head.strip())
    for match in _INTRODUCED.finditer(abstract):
        names.append(match["name"])
    for sentence in _PROPOSED.findall(abstract):
        names += [name for name in _NAME.findall(sentence) if name not in _COMMON][:1]
    names += [match["name"] for match in _CALLED.finditer(abstract)]
    names += [
        name
        for name in dict.fromkeys(_NAME.findall(title))
        if re.search(rf"(?<!than )(?<![\w-]){re.escape(name)}{_ACHIEVES}", abstract)
    ]
    methods = [name for name in dict.fromkeys(names) if _may_be_a_method(name, abstract)]
    return methods[:4]


def _may_be_a_method(name: str, abstract: str) -> bool:
    if len(name) < 2 or name in _COMMON or benchmark(name) or _NO_METHOD.fullmatch(name):
        return False
    place = abstract.find(name)
    return place < 0 or not _IS_DATA.match(abstract, place + len(name))


def _partition(title: str) -> tuple[str, str, str]:
    """A title at its first colon or dash between spaces."""
    match = re.search(r":\s|\s[-–—]+\s", title)
    if match is None:
        return title, "", ""
    return title[: match.start()], match[0], title[match.end() :]


def is_own(label: Sequence[str], names: Sequence[str]) -> bool:
    """Whether a row label (or head path) is of the paper's own method.

    "w/o X" is its ablation and "our X baseline" another's method; "+ X" and "A + X" are its own.
    """
    text = " ".join(label)
    if _ABLATED.search(text) or _RERUN.search(text):
        return False
    last = label[-1] if label else ""
    if _OURS.search(text) or last in {"Proposed", "This work", "This paper"}:
        return True
    return any(
        re.match(
            rf"(?:[\w.-]+/|[Oo]ur |(?:.* )?(?:\+|w/|with) ?)?{re.escape(name)}(?!\w)", last, re.I
        )
        for name in names
    )


def is_own_head(head_path: Sequence[str], names: Sequence[str]) -> bool:
    """Whether the heads over a column, groups and all, are of the paper's own method."""
    return any(is_own([text], names) for text in head_path)


def is_difference(texts: Sequence[str]) -> bool:
    """Whether a label or head path says a difference: "Δ", "Improvement"; "Diff-3B" is a model."""
    return any(_DIFFERENCE.fullmatch(text.strip()) for text in texts)


def is_attribute(head_path: Sequence[str]) -> bool:
    """Whether heads tell what was varied or given, not what came out."""
    return any(_ATTRIBUTE.fullmatch(_bare(text)) for text in head_path[-1:])
