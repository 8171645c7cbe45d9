"""What a value of a table measures, where the table's own cells or caption name it.

A benchmark or metric counts only as a whole head, a whole row label, or the only one that the
caption names; "Acc." under "MATH" is both. What is not named stays unnamed: nothing is guessed.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import TypeVar

from webapp.ui.tables import table

from .reading import Table, Value

_DATA = table(__file__, "names.toml")
_DECORATION = re.compile(r"\s*(?:[↑↓†‡*]|\(\s*[↑↓%]\s*\)|\((?:%|ms|s|GB|MB|M|G|T)\)|\[[^\]]*\])\s*")
# A whole head that tells what was varied, not what came out.
_ATTRIBUTE = re.compile(
    r"#.*|(?:params?|parameters|(?:model )?size|steps?|epochs?|NFE|dim\.?|dimension|shots?|year|"
    r"venue|layers?|heads?|samples|tokens|batch(?: size)?|lr|ratio|rank|budget|cost|k|n|h)\.?",
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
    bare = _bare(text)
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
    neither benchmark nor metric. The caption's first sentence names what no head does: a benchmark
    where every head is a metric, a metric where no head is one. Attributes (parameters, steps) and
    differences are no results.
    """
    first = re.split(r"(?<=[^.]{3})\.\s", read.grid.caption, maxsplit=1)[0]
    heads = {text for value in read.values for text in value.head_path[-1:]}
    by_caption = _only({_metrics()[name] for name in _in_caption(first, tuple(_metrics()))})
    on_caption = _only({_benchmarks()[n.casefold()] for n in _in_caption(first, _written())})
    default = (
        on_caption if heads and all(metric(text) for text in heads) else None,
        None if any(metric(text) for text in heads) else by_caption,
    )
    results = (_reported(value, *default) for value in read.values)
    return [result for result in results if result is not None]


T = TypeVar("T")


def _only(known: set[T]) -> T | None:
    """The only member of a set, or None."""
    return next(iter(known)) if len(known) == 1 else None


@cache
def _written() -> tuple[str, ...]:
    return tuple(name for names in _DATA["benchmarks"] for name in names)


def _reported(value: Value, benchmark_: str | None, metric_: Metric | None) -> Reported | None:
    texts = [*value.row_label, *value.head_path]
    on = {text: name for text in texts if (name := benchmark(text))}
    by = {text: known for text in texts if (known := metric(text))}
    name = _only(set(on.values())) if on else benchmark_
    measure = _only(set(by.values())) if by else metric_
    labels = [text for text in value.row_label if text not in on and text not in by]
    heads = [text for text in value.head_path if text not in on and text not in by]
    # The innermost label that is neither a benchmark nor a metric says whose number it is.
    subject = labels.pop() if labels else heads.pop(0) if heads else ""
    is_result = not any(_DIFFERENCE.search(text) for text in texts) and not any(
        _ATTRIBUTE.fullmatch(_bare(text)) for text in heads
    )
    if name is None or measure is None or not is_result or not re.search("[A-Za-z]{2}", subject):
        return None
    return Reported(value, subject, name, measure, ", ".join([*labels, *heads]))


def names_of(title: str, abstract: str) -> list[str]:
    """What a paper calls its own method: before a colon of the title, or where it is proposed."""
    names: list[str] = []
    head, colon, _ = title.partition(":")
    if colon and len(head.split()) <= 3:
        names.append(head.strip())
    for sentence in _PROPOSED.findall(abstract):
        names += [name for name in _NAME.findall(sentence) if name not in _COMMON][:1]
    kept = [name for name in dict.fromkeys(names) if benchmark(name) is None and len(name) > 1]
    return kept[:4]


def is_own(label: Sequence[str], names: Sequence[str]) -> bool:
    """Whether a row label (or head path) is of the paper's own method.

    "w/o X" and "X without Y" are its ablations, "+ X" joins it to another: they are not it.
    """
    text = " ".join(label)
    if re.search(r"\bw/o\b|\bwithout\b|^[-+−–—]|\s[-−–]\s|\bno[- ]", text):
        return False
    if _OURS.search(text):
        return True
    last = label[-1] if label else ""
    return any(
        re.match(rf"{re.escape(name)}(?![\w])", last, re.IGNORECASE) is not None for name in names
    )
