"""`methods new` writes what runs at once, and a method in a package of its own is one of ours."""

import os
import re
import runpy
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from zipfile import ZipFile

import pytest

from methods import registry
from methods.commands import new
from methods.errors import InputError
from tests.methods.conftest import Done, lines
from tests.processes import ROOT
from webapp.catalog.evidence import links

Cli = Callable[..., Done]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A skeleton as `pip` builds it, with a recorded reading."""
    folder = tmp_path_factory.mktemp("package")
    new.main(_args("thin", folder))
    (folder / "thin" / "trace.json").write_text("{}")
    code = f"from setuptools.build_meta import build_wheel; build_wheel({str(folder)!r})"
    done = subprocess.run([sys.executable, "-c", code], cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    (built,) = folder.glob("*.whl")
    return built


@pytest.fixture
def installed(wheel: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The wheel as `pip install --target` unpacks it.

    It is on the path here, and as their current folder on that of the processes that measure.
    """
    with ZipFile(wheel) as archive:
        archive.extractall(tmp_path)
    (tmp_path / "thin" / "trace.json").unlink()
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(registry, "_installed", cache(registry._installed.__wrapped__))
    yield tmp_path
    registry.get.cache_clear()
    for name in [name for name in sys.modules if name.partition(".")[0] == "thin"]:
        del sys.modules[name]


def test_a_wheel_holds_all_of_a_package(wheel: Path) -> None:
    folder = wheel.parent / "thin"
    with ZipFile(wheel) as archive:
        held = {Path(name).name for name in archive.namelist() if name.startswith("thin/")}
    assert held == {path.name for path in folder.iterdir()}


def _args(name: str, to: Path | None):
    return type("Args", (), {"name": name, "to": to, "paper": "", "quote": []})()


def test_an_installed_method_is_listed_checked_and_run(cli: Cli, installed: Path) -> None:
    assert "thin" in cli("list").stdout
    checked = cli("check", "thin")
    assert checked.returncode == 0, checked.stdout + checked.stderr
    assert "1 of 1 checks passed" in checked.stdout
    settings = ("--set", "processes=2", "--set", "sizes=32", "--set", "rank=2")
    done = cli("run", "thin.latency", "--preset", "smoke", "--json", "-", *settings)
    assert done.returncode == 0, done.stderr
    *_, last = lines(done.stdout)
    assert (last.kind, last.body.processes, last.body.series) == ("result", 2, ("forward",))
    found = links("2512.00001", "Layers of low-rank factors", "")
    assert ("thin", "about") in [(one.method, one.relation) for one in found]


def test_the_tests_of_an_installed_method_pass(
    installed: Path, wheel: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (path,) = (wheel.parent / "tests").glob("test_*.py")
    written = runpy.run_path(str(path))
    written["test_the_checks_hold"]()
    written["test_a_forgotten_factor_is_seen"](monkeypatch)
    assert sum(name.startswith("test_") for name in written) == 2


def test_an_entry_point_that_names_no_package_says_so(cli: Cli, installed: Path) -> None:
    (installed / "assay_thin-0.1.dist-info" / "entry_points.txt").write_text(
        "[assay.methods]\nthin = nothing_here\n"
    )
    with pytest.warns(UserWarning, match="No module named 'nothing_here'"):
        assert cli("check", "thin").returncode == 2


@pytest.mark.parametrize(
    ("broken", "why"),
    [
        ("raise RuntimeError('of its own')", "RuntimeError: of its own"),
        ("METHOD = None", "its METHOD is a NoneType"),
        ("from methods.spec import Method\nMETHOD = Method(slug='b', title='', description='')",
         "calls itself 'b'"),
    ],
)  # fmt: skip
def test_a_broken_method_of_others_hides_none_of_ours(
    cli: Cli, installed: Path, broken: str, why: str
) -> None:
    (installed / "thin" / "spec.py").write_text(broken + "\n")
    with pytest.warns(UserWarning, match=why) as warned:
        done = cli("list")
    assert done.returncode == 0
    assert "sparse_attention.latency" in done.stdout
    assert "thin.latency" not in done.stdout
    (said,) = warned
    assert "'thin' of the installed package 'thin' is left out" in str(said.message)


@pytest.mark.parametrize("name", ["Thin", "thin-one", "", "sparse_attention"])
def test_names_that_cannot_be(tmp_path: Path, name: str) -> None:
    with pytest.raises(InputError):
        new.main(_args(name, tmp_path))
    assert not list(tmp_path.iterdir())


def test_pip_is_told_the_folder_and_not_a_name_of_its_index(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    new.main(_args("thin", Path("my methods")))
    folder = f"'{tmp_path}/my methods'"
    said = capsys.readouterr().out.splitlines()
    assert said[-1] == f"next: pip install {folder} && python -m methods check thin"
    page = (ROOT / "docs" / "write-a-method.md").read_text()
    named = re.findall(r"pip install (?:--python \S+ )?\"?([^\s\"`]+)", page)
    assert named == ["./methods[torch]", "./my-methods", "./my-methods"]


def test_nothing_is_written_over(tmp_path: Path) -> None:
    new.main(_args("thin", tmp_path))
    (tmp_path / "thin" / "model.py").write_text("mine")
    with pytest.raises(InputError, match="exists already; nothing was written"):
        new.main(_args("thin", tmp_path))
    assert (tmp_path / "thin" / "model.py").read_text() == "mine"


def test_in_this_repository_its_mutations_go_to_the_tests() -> None:
    texts = new._in_checkout("thin")
    assert ROOT / "tests" / "methods" / "thin" / "mutations.py" in texts
    assert "from . import model" in texts[ROOT / "methods" / "thin" / "checks.py"]
    assert "from ..spec import Case" in texts[ROOT / "methods" / "thin" / "checks.py"]
    for path, text in texts.items():
        if path.suffix == ".py":
            compile(text, str(path), "exec")


NOT_COPIED = (".git", ".venv", "var", ".*_cache", "__pycache__", "*.pyc")


def without_settings() -> dict[str, str]:
    """This environment without what tests of the site set, which tests/conftest.py refuses."""
    return {key: value for key, value in os.environ.items() if key != "DJANGO_SETTINGS_MODULE"}


def asking() -> list[str]:
    """The files of tests that ask something of every method or of every package."""
    every = {"tests/test_architecture.py", "tests/test_docs.py"}
    for path in (ROOT / "tests").rglob("test_*.py"):
        if re.search(r"\bregistry\b|\bmethods/\*", path.read_text(encoding="utf-8")):
            every.add(str(path.relative_to(ROOT)))
    return sorted(every)


@pytest.mark.slow
def test_a_new_method_passes_what_is_asked_of_every_method(tmp_path: Path) -> None:
    """In a copy of the checkout: its style, its types and the tests, with the skeleton as made."""
    copy = tmp_path / "assay"
    shutil.copytree(ROOT, copy, ignore=shutil.ignore_patterns(*NOT_COPIED))
    types = ROOT / ".mypy_cache"
    if types.is_dir():
        shutil.copytree(types, tmp_path / "types")

    def passes(*command: str) -> str:
        done = subprocess.run(
            [sys.executable, "-m", *command],
            cwd=copy,
            env={**without_settings(), "PYTHONPATH": "", "MYPY_CACHE_DIR": str(tmp_path / "types")},
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
        return done.stdout

    passes("methods", "new", "low_rank")
    passes("ruff", "check", "methods/low_rank", "tests/methods/low_rank")
    passes("ruff", "format", "--check", "methods/low_rank", "tests/methods/low_rank")
    passes("mypy", "methods/low_rank")
    wanted = "low_rank or test_architecture or test_docs"
    said = passes("pytest", "-q", "-p", "no:cacheprovider", "-k", wanted, *asking())
    assert int(re.findall(r"(\d+) passed", said)[0]) > 40
