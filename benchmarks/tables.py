"""How well the tables of real papers are read: `python -m benchmarks.tables FOLDER`.

FOLDER holds arXiv's HTML of the papers named in tables.jsonl, as ID.html or in parts ID-1.html,
ID-2.html; a paper's source converted by `latexmlc --format=html5` does as well. Each line of
tables.jsonl labels one table by hand, without its numbers: the label of every row with values, the
heads of every column, the paper's own rows or columns, and which rows name every field. A table is
found by the start of its caption (its hash) and its place among those with the same one.

What is compared is what `/api/v1/papers/ID/tables` answers on a site that has stored the papers.
"""

import hashlib
import json
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.large_site import empty_site

LABELS = Path(__file__).with_suffix(".jsonl")
# What title and abstract say of the own method; an abstract in our words.
PAPERS = {
    "2512.13961": ("Olmo 3", "We introduce Olmo 3, a family of open language models."),
    "2401.14680": ("MaLLaM – Malaysia Large Language Model", "We train MaLLaM from scratch."),
    "2402.03053": (
        "Multi-Lingual Malaysian Embedding: Leveraging Large Language Models for Semantic "
        "Representations",
        "We finetune Malaysian Llama2 and Mistral on embedding tasks and release two models.",
    ),
    "2501.13124": ("Debate Helps Weak-to-Strong Generalization", "We let models debate."),
    "2502.06782": ("Lumina-Video: Efficient and Flexible Video Generation", "We introduce it."),
    # A paper that is not on arXiv.
    "0000.00000": (
        "PhyST-Net: A Physics-Aware Differentiable Spatio-Temporal Transformer",
        "We propose PhyST-Net, a transformer for constrained forecasts.",
    ),
}
Table = dict[str, Any]


def main(folder: Path) -> None:
    """Store the papers of a folder, read their tables from the API and print the shares."""
    labels = [json.loads(line) for line in LABELS.read_text().splitlines()]
    with empty_site():
        counts = measured(labels, dict(answers(folder)))
    _print(counts)


def answers(folder: Path) -> Iterator[tuple[str, list[Table]]]:
    """Each paper with the tables that the API gives of it, in the order of its page."""
    from django.conf import settings
    from django.test import Client

    from webapp.claims.tables.store import store_tables
    from webapp.papers.models import Paper

    settings.ALLOWED_HOSTS = ["testserver"]
    for number, (title, abstract) in PAPERS.items():
        parts = sorted(folder.glob(f"{number}*.html"))
        if not parts:
            continue
        paper = Paper.objects.create(arxiv_id=number, title=title, abstract=abstract)
        bodies = b"\n".join(_body(part.read_bytes()) for part in parts)
        store_tables(paper, 1, b"<html><body>" + bodies + b"</body></html>")
        tables = Client().get(f"/api/v1/papers/{number}/tables").json()["tables"]
        yield number, sorted(tables, key=lambda table: table["position"])


def _body(page: bytes) -> bytes:
    """What stands between the tags of a page's body."""
    return page.partition(b"<body")[2].partition(b">")[2].partition(b"</body>")[0]


def measured(labels: list[Table], answers: dict[str, list[Table]]) -> Counter[str]:
    """Counts over the labelled tables that were found in the answers."""
    counts: Counter[str] = Counter()
    for label in labels:
        alike = [
            t for t in answers.get(label["paper"], []) if _key(t["caption"]) == label["caption"]
        ]
        if label["nth"] >= len(alike):
            counts["tables not found"] += 1
            continue
        counts["tables"] += 1
        counts += _compared(label, alike[label["nth"]])
    return counts


def _key(caption: str) -> str:
    """The hash of the start of a caption, spaces aside."""
    return hashlib.sha256(" ".join(caption[:100].split()).encode()).hexdigest()[:12]


def _compared(label: Table, table: Table) -> Counter[str]:
    """Counts of one table: values with their whole path, tuples, own cells."""
    counts: Counter[str] = Counter()
    own: dict[str, set[tuple[int, int]]] = defaultdict(set)
    for value in table["values"]:
        row, column = str(value["row"]), str(value["column"])
        is_right = value["row_label"] == label["rows"].get(row) and value["head_path"] == label[
            "columns"
        ].get(column)
        counts["values"] += 1
        counts["values right"] += is_right
        if label["kind"] == "result":
            counts["result values"] += 1
        told, said = _told(label, row, column), value["quantity"]
        counts["values whose table says every field"] += told is not None
        if said is not None:
            counts["tuples shown"] += 1
            counts["tuples right"] += told is not None and _is_tuple_right(value, told)
        place = (value["row"], value["column"])
        if value["own"]:
            own["said"].add(place)
        if value["row"] in label.get("own_rows", ()) or value["column"] in label.get(
            "own_columns", ()
        ):
            own["true"].add(place)
    if label["kind"] == "result":
        counts["own said"] += len(own["said"])
        counts["own true"] += len(own["true"])
        counts["own right"] += len(own["said"] & own["true"])
    return counts


def _told(label: Table, row: str, column: str) -> Table | None:
    """The benchmark and the metric that a table names for a value; None where it does not."""
    for told in label.get("tuples", ()):
        if row in told.get("rows", label["rows"]) and column in told.get("columns", (column,)):
            return dict(told)
    return None


def _is_tuple_right(value: Table, told: Table) -> bool:
    """Whether benchmark and metric are the labelled ones, and the rest is the cell's own path."""
    said = value["quantity"]
    words = {*value["row_label"], *value["head_path"]}
    setting = {part.rpartition(" = ")[2] for part in said["setting"].split(", ")}
    rest = {said["subject"], *setting} - {""}
    names = (said["benchmark"], said["metric"]) == (told["benchmark"], told["metric"])
    return names and rest <= words and said["subject"] in words


def _print(counts: Counter[str]) -> None:
    shares = {
        "value with its whole row label and head path": ("values right", "values"),
        "shown tuple right in every field": ("tuples right", "tuples shown"),
        "shown, of values whose table says every field": (
            "tuples right",
            "values whose table says every field",
        ),
        "shown, of all values in tables of results": ("tuples shown", "result values"),
        "own row or column: precision": ("own right", "own said"),
        "own row or column: recall": ("own right", "own true"),
    }
    print(f"{counts['tables']} tables, {counts['tables not found']} not found")
    for name, (part, whole) in shares.items():
        share = f"{counts[part] / counts[whole]:.1%}" if counts[whole] else "–"
        print(f"{name}: {share} ({counts[part]} of {counts[whole]})")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("Give the folder with the papers' HTML: python -m benchmarks.tables FOLDER")
    main(Path(sys.argv[1]))
