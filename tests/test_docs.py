"""The documents say what the code does."""

import re
from pathlib import Path

import pytest

from methods import charts, protocol
from tests.processes import ROOT
from webapp.env import VARIABLES

SETTINGS = (ROOT / "docs" / "settings.md").read_text()
DOCUMENTS = [
    *sorted((ROOT / "docs").glob("*.md")),
    ROOT / "README.md",
    ROOT / "CHANGELOG.md",
    ROOT / "CONTRIBUTING.md",
    *sorted((ROOT / "methods").glob("*/*.md")),
]


def test_every_setting_is_documented_as_it_is() -> None:
    rows = re.findall(r"^\| `([A-Z_]+)` \| (.*?) \| (.*?) \|$", SETTINGS, re.MULTILINE)
    documented = {name: (default, text) for name, default, text in rows}
    declared = {name: f"`{one.default}`" if one.default else "" for name, one in VARIABLES.items()}
    assert {name: default for name, (default, _) in documented.items()} == declared
    assert all(len(text) > 10 for _, text in documented.values())
    assert len(rows) == len(documented)


def test_every_setting_that_is_read_is_declared() -> None:
    names = set(VARIABLES)
    names |= {"CUDA_VISIBLE_DEVICES"}  # described below the table
    read = set()
    for folder in ("webapp", "workers", "methods"):
        for path in (ROOT / folder).rglob("*.py"):
            read |= set(re.findall(r"environ(?:\.get)?[\[(]\"([A-Z_]+)\"", path.read_text()))
    read |= set(re.findall(r"environ\.get\(\"([A-Z_]+)\"", (ROOT / "bootstrap.py").read_text()))
    # Django's, the profiler's and Triton's own.
    assert read - names <= {"DJANGO_SETTINGS_MODULE", "KINETO_LOG_LEVEL", "TRITON_INTERPRET"}
    assert all(name in SETTINGS for name in names)


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_links_lead_somewhere(document: Path) -> None:
    for target in re.findall(r"\]\(([^)#]+)[^)]*\)", document.read_text()):
        if "://" not in target:
            assert (document.parent / target).exists(), target


def test_a_plot_is_committed_only_if_a_document_shows_it() -> None:
    """`python -m methods run … --plots` draws the others again from the committed results."""
    documents = "".join(path.read_text() for path in (ROOT / "methods").glob("*/*.md"))
    plots = {path.name for path in (ROOT / "benchmarks" / "results").rglob("*.svg")}
    assert {name for name in plots if name not in documents} == set()


def test_a_committed_plot_is_what_its_results_draw() -> None:
    results, drawn = ROOT / "benchmarks" / "results", set()
    for line in (line for file in results.rglob("*.jsonl") for line in file.open("rb")):
        body = protocol.Line.parse(line.strip()).body
        if isinstance(body, protocol.Series):
            drawn |= {*charts.draw_all(body).values()}
        elif isinstance(body, protocol.Artefact):
            drawn.add(body.data().decode())
    assert [path.name for path in results.rglob("*.svg") if path.read_text() not in drawn] == []


@pytest.mark.parametrize("method", ["seps", "token_pruning"])
def test_the_front_page_of_a_method_is_short(method: str) -> None:
    text = (ROOT / "methods" / method / "README.md").read_text()
    assert len(text.split()) <= 1_500
    for target in re.findall(r"\]\(([^)#:]+)\)", text):
        assert (ROOT / "methods" / method / target).exists(), target


# Level 1 of version 4.0.3: how many requirements each section has; those that are not of level 1.
ASVS = {
    "2.1": 12,
    "2.2": 3,
    "2.3": 1,
    "2.5": 6,
    "2.7": 4,
    "2.8": 1,
    "3.1": 1,
    "3.2": 3,
    "3.3": 2,
    "3.4": 5,
    "3.7": 1,
    "4.1": 5,
    "4.2": 2,
    "4.3": 2,
    "5.1": 5,
    "5.2": 8,
    "5.3": 10,
    "5.5": 4,
    "6.2": 1,
    "7.1": 2,
    "7.4": 1,
    "8.2": 3,
    "8.3": 4,
    "9.1": 3,
    "10.3": 3,
    "11.1": 5,
    "12.1": 1,
    "12.3": 5,
    "12.4": 2,
    "12.5": 2,
    "12.6": 1,
    "13.1": 3,
    "13.2": 3,
    "13.3": 1,
    "14.2": 3,
    "14.3": 3,
    "14.4": 7,
    "14.5": 3,
}
WITHDRAWN = {"4.1.4", "13.1.2", "14.3.1"}


def test_security_answers_every_requirement_of_level_1_once() -> None:
    text = (ROOT / "docs" / "security.md").read_text()
    answered = []
    for numbers, state, why, proof in re.findall(
        r"^\| (\d[\d., –]+) \| (.+?) \| (.+?) \| (.*?) ?\|$", text, re.MULTILINE
    ):
        assert state in {"met", "**not met**", "proxy", "n/a"}, numbers
        assert proof or state != "met", f"{numbers} names no test and no code"
        assert len(why) > 20
        for part in numbers.split(", "):
            first, _, last = part.partition("–")
            section, _, begin = first.rpartition(".")
            end = (last or first).rpartition(".")[2]
            answered += [f"{section}.{number}" for number in range(int(begin), int(end) + 1)]
    every = {f"{name}.{n}" for name, count in ASVS.items() for n in range(1, count + 1)} - WITHDRAWN
    assert sorted(answered) == sorted(every)


def test_what_security_names_is_there() -> None:
    """Each test behind a line of docs/security.md."""
    named = re.findall(r"`([\w/]+\.py)::(\w+)`", (ROOT / "docs" / "security.md").read_text())
    assert len(named) > 20
    missing = [
        f"{file}::{test}"
        for file, test in named
        if f"def {test}(" not in (ROOT / "tests" / file).read_text()
    ]
    assert missing == []
