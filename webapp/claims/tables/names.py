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
_DIFFERENCE = re.compile(r"^(?:Δ|Improv(?:ement|\.)?|Gain|Diff(?:erence|\.)?|Decrease)\b|^Δ", re.I)
_OURS = re.compile(r"\b[Oo]urs\b|\(OURS\)|\bOur (?:method|model|approach)\b")
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
    r"\bw/o\b|\bwithout\b|^[-+−–—]|\s[-−–]\s|\bno[- ]|-no[a-z]|\b(?:minus|ablat\w+|removed?)\b"
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
    said = {"higher" for text in head_path if "↑" in text}
    said |= {"lower" for text in head_path if "↓" in text}
    said = said or {known.better for text in head_path if (known := metric(text))}
    return next(iter(said)) if len(said) == 1 else ""


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
    is_result = not any(_DIFFERENCE.search(text) for text in texts) and not any(
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

    The title, where it is a name or has one before a colon or dash; and what the abstract says that
    it proposes: a name in capitals, or any between "we introduce" and a comma or bracket.
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
    kept = [
        name
        for name in dict.fromkeys(names)
        if benchmark(name) is None and len(name) > 1 and name not in _COMMON
    ]
    return kept[:4]


def _partition(title: str) -> tuple[str, str, str]:
    """A title at its first colon or dash between spaces."""
    match = re.search(r":\s|\s[-–—]+\s", title)
    if match is None:
        return title, "", ""
    return title[: match.start()], match[0], title[match.end() :]


def is_own(label: Sequence[str], names: Sequence[str]) -> bool:
    """Whether a row label (or head path) is of the paper's own method.

    "w/o X" and "X without Y" are its ablations, "+ X" joins it to another: they are not it.
    """
    text = " ".join(label)
    if _ABLATED.search(text):
        return False
    if _OURS.search(text):
        return True
    last = label[-1] if label else ""
    return any(
        re.match(rf"(?:[\w.-]+/)?{re.escape(name)}(?!\w)", last, re.IGNORECASE) for name in names
    )


def is_own_head(head_path: Sequence[str], names: Sequence[str]) -> bool:
    """Whether the heads over a column, groups and all, are of the paper's own method."""
    return any(is_own([text], names) for text in head_path)
