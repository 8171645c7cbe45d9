"""The commands of the READMEs: checks that train, a training, the names of the others."""

import re
import shlex
from pathlib import Path

import pytest

from methods import registry
from methods.__main__ import main
from tests.methods.concept_lm import tiny_qwen
from tests.methods.test_checks import TRAINED
from tests.processes import ROOT

LINE = re.compile(r"python -m methods ([^\n`]*)")


def lines(slug: str) -> list[list[str]]:
    """The commands of a README, as words, without what stands behind a #."""
    text = (ROOT / "methods" / slug / "README.md").read_text(encoding="utf-8")
    return [shlex.split(line, comments=True) for line in LINE.findall(text)]


def trained(slug: str) -> list[str]:
    """The rows of a method's table that train a model."""
    return [check.name for check in registry.get(slug).checks if check.name in TRAINED]


@pytest.mark.slow
@pytest.mark.parametrize("slug", [slug for slug in registry.slugs() if trained(slug)])
def test_rows_that_train_pass(
    slug: str, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """As the command runs them. Every other row is run by test_checks.py, and a whole table by
    test_distribution.py.
    """
    monkeypatch.chdir(tmp_path)
    rows = trained(slug)
    code = main(["check", slug, *(word for name in rows for word in ("--only", name))])
    told = capfd.readouterr().out
    assert code == 0, told
    assert f"{len(rows)} of {len(rows)} checks passed" in told
    assert all(re.search(rf"^{name} .*passed$", told, re.M) for name in rows)


def test_every_readme_names_its_checks_and_the_quick_run_of_its_question() -> None:
    """That run is tested by tests/browser/test_loop.py."""
    for slug in ("token_pruning", "seps", "concept_lm"):
        question = registry.get(slug).question
        assert question is not None
        quick = ["run", f"{slug}.{question.benchmark}", "--preset", "quick"]
        assert {("check", slug), tuple(quick)} <= {*map(tuple, lines(slug))}


@pytest.mark.slow
def test_the_readme_of_concepts_trains_and_writes_as_written(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a folder where FOLDER is a Qwen and TEXTS are texts; two steps in the place of 1,000."""
    tiny_qwen.save(tmp_path / "FOLDER")
    (tmp_path / "TEXTS").mkdir()
    (tmp_path / "TEXTS" / "cat.txt").write_text("the cat sat on the mat ; " * 400)
    monkeypatch.chdir(tmp_path)
    text = (ROOT / "methods/concept_lm/README.md").read_text(encoding="utf-8")
    (block,) = re.findall(r"```\n(mkdir out\n.*?)```", text, re.S)
    make, train, write = map(shlex.split, block.splitlines())
    Path(make[1]).mkdir()
    assert main([*train[3:], "--set", "steps=2", "--set", "judged=2"]) == 0, capfd.readouterr()
    assert re.search(r"[\d.]+ before .* [\d.]+ after", capfd.readouterr().out)
    assert main(write[3:]) == 0, capfd.readouterr()
    assert capfd.readouterr().out.startswith("Once upon")
