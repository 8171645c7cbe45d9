"""Commands that documents give can be given: their benchmarks, presets and settings exist."""

import re
import shlex

import pytest

from methods import registry
from methods.commands.run import settings
from tests.processes import ROOT

DOCUMENTS = [
    *ROOT.glob("methods/*/README.md"),
    *ROOT.glob("docs/*.md"),
    ROOT / "README.md",
    ROOT / "benchmarks" / "README.md",
]


def commands() -> list[str]:
    found = []
    for path in DOCUMENTS:
        text = path.read_text(encoding="utf-8").replace("\\\n", " ")
        found += re.findall(r"methods run ([a-z_]+\.[a-z_]+[^\n`]*)", text)
    slugs = set(registry.slugs())
    return sorted({one for one in found if one.partition(".")[0] in slugs})


def test_there_are_commands() -> None:
    assert len(commands()) > 10


@pytest.mark.parametrize("line", commands())
def test_a_documented_run_is_accepted(line: str) -> None:
    words = shlex.split(line, comments=True)
    _, benchmark = registry.find(words[0])
    preset = words[words.index("--preset") + 1] if "--preset" in words else "standard"
    given = [words[i + 1] for i, word in enumerate(words) if word == "--set"]
    benchmark.resolve(preset, settings(given))
