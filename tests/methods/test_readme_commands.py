"""Commands in documents: their benchmarks, presets and settings exist."""

import json
import re
import shlex
import tomllib

import pytest

from methods import registry
from methods.commands.own import OWN
from methods.commands.run import settings
from methods.params import resolve
from tests.methods import SHIPPED
from tests.processes import ROOT

DOCUMENTS = [
    *ROOT.glob("methods/*/*.md"),
    *ROOT.glob("docs/*.md"),
    ROOT / "README.md",
    ROOT / "benchmarks" / "README.md",
]


def lines(pattern: str) -> list[str]:
    found = []
    for path in DOCUMENTS:
        text = path.read_text(encoding="utf-8").replace("\\\n", " ")
        found += re.findall(pattern, text)
    return sorted(set(found))


def commands() -> list[str]:
    found = lines(r"methods run ([a-z_]+\.[a-z_]+[^\n`]*)")
    return [one for one in found if one.partition(".")[0] in registry.slugs()]


OWN_DATA = lines(rf"methods ((?:{'|'.join(OWN)}) [a-z_]+ --set [^\n`]*)")


def test_there_are_commands() -> None:
    assert len(commands()) > 10


@pytest.mark.parametrize("line", commands())
def test_a_documented_run_is_accepted(line: str) -> None:
    words = shlex.split(line, comments=True)
    _, benchmark = registry.find(words[0])
    preset = words[words.index("--preset") + 1] if "--preset" in words else "full"
    given = [words[i + 1] for i, word in enumerate(words) if word == "--set"]
    benchmark.resolve(preset, settings(given))


@pytest.mark.parametrize("line", OWN_DATA)
def test_a_documented_command_on_data_of_ones_own_is_accepted(line: str) -> None:
    name, slug, *words = shlex.split(line, comments=True)
    given = [words[i + 1] for i, word in enumerate(words) if word == "--set"]
    (command,) = (one for one in registry.get(slug).commands if one.name == name)
    resolve(command.params, settings(given), {})


def test_every_command_on_data_of_ones_own_is_documented() -> None:
    said = {tuple(line.split()[:2]) for line in OWN_DATA}
    every = [registry.get(slug) for slug in registry.slugs()]
    assert said == {(one.name, method.slug) for method in every for one in method.commands}


@pytest.mark.parametrize("slug", SHIPPED)
def test_a_readme_is_short_and_says_first_what_holds(slug: str) -> None:
    """1,500 words; a table of claims and five lines: links have the rest."""
    text = (ROOT / "methods" / slug / "README.md").read_text(encoding="utf-8")
    assert len(text.split()) <= 1500
    table, _, home = text.partition("```")[0].partition("To take home:")
    assert re.search(r"^\| claim.* \| measured.* \| verdict \|$", table, re.M)
    assert re.findall(r"^(\d)\. ", home, re.M) == list("12345")


def test_a_share_of_right_answers_is_none_at_least_and_all_at_most() -> None:
    """Charts and the intervals of committed results alike."""
    for path in ROOT.glob("methods/*/charts.toml"):
        told = tomllib.loads(path.read_text(encoding="utf-8"))["series"]
        for y in (series["y"] for series in told.values() if "y" in series):
            assert y.get("unit") != "%" or (y["least"], y["most"]) == (0, 100), path
    for path in ROOT.glob("benchmarks/results/*/*.jsonl"):
        for line in path.read_text(encoding="utf-8").splitlines():
            body = json.loads(line)["body"]
            if body.get("y", {}).get("label") in ("right answers", "recall"):
                ends = [end for one in body["points"] for end in (one["low"], one["high"])]
                assert min(ends) >= 0, path
                assert max(ends) < 100 + 1e-9, path
