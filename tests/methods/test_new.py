"""`methods new` writes what runs at once, and a method in a package of its own is one of ours."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from methods.commands import new
from methods.errors import InputError
from tests.methods.conftest import Done, lines
from tests.processes import ROOT


def run(folder: Path, *arguments: str) -> Done:
    """The command line where `folder` is on the path, as an installed distribution's is."""
    return subprocess.run(
        [sys.executable, "-m", *arguments],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{folder}"},
        capture_output=True,
        text=True,
        timeout=300,
    )


@pytest.fixture
def installed(tmp_path: Path) -> Path:
    """A skeleton as `pip install --target` leaves it: the package and its metadata."""
    assert new.main(_args("thin", tmp_path)) == 0
    info = tmp_path / "assay_thin-0.1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: assay-thin\nVersion: 0.1\n")
    (info / "entry_points.txt").write_text("[assay.methods]\nthin = thin\n")
    return tmp_path


def _args(name: str, to: Path | None):
    return type("Args", (), {"name": name, "to": to})()


def test_an_installed_method_is_listed_checked_and_run(installed: Path) -> None:
    assert "thin" in run(installed, "methods", "list").stdout
    checked = run(installed, "methods", "check", "thin")
    assert checked.returncode == 0, checked.stdout + checked.stderr
    assert "1 of 1 checks passed" in checked.stdout
    settings = ("--set", "processes=2", "--set", "sizes=32", "--set", "rank=2")
    done = run(
        installed, "methods", "run", "thin.latency", "--preset", "smoke", "--json", "-", *settings
    )
    assert done.returncode == 0, done.stderr
    *_, last = lines(done.stdout)
    assert (last.kind, last.body.processes, last.body.series) == ("result", 2, ("forward",))
    tested = run(installed, "pytest", "-q", "-p", "no:cacheprovider", "tests")
    assert tested.returncode == 0, tested.stdout
    assert "2 passed" in tested.stdout


def test_an_entry_point_that_names_no_package_says_so(installed: Path) -> None:
    (installed / "assay_thin-0.1.dist-info" / "entry_points.txt").write_text(
        "[assay.methods]\nthin = nothing_here\n"
    )
    done = run(installed, "methods", "check", "thin")
    assert done.returncode != 0
    assert "nothing_here" in done.stderr


@pytest.mark.parametrize(
    ("broken", "why"),
    [
        ("raise RuntimeError('of its own')", "RuntimeError: of its own"),
        ("METHOD = None", "AttributeError"),
        ("from methods.spec import Method\nMETHOD = Method(slug='b', title='', description='')",
         "calls itself 'b'"),
    ],
)  # fmt: skip
def test_a_broken_method_of_others_hides_none_of_ours(
    installed: Path, broken: str, why: str
) -> None:
    (installed / "thin" / "spec.py").write_text(broken + "\n")
    done = run(installed, "methods", "list")
    assert done.returncode == 0
    assert "sparse_attention.latency" in done.stdout
    assert "thin.latency" not in done.stdout
    assert "'thin' of the installed package 'thin' is left out" in done.stderr
    assert why in done.stderr


@pytest.mark.parametrize("name", ["Thin", "thin-one", "", "sparse_attention"])
def test_names_that_cannot_be(tmp_path: Path, name: str) -> None:
    with pytest.raises(InputError):
        new.main(_args(name, tmp_path))
    assert not list(tmp_path.iterdir())


def test_nothing_is_written_over(tmp_path: Path) -> None:
    new.main(_args("thin", tmp_path))
    (tmp_path / "thin" / "model.py").write_text("mine")
    with pytest.raises(InputError, match="exists already; nothing was written"):
        new.main(_args("thin", tmp_path))
    assert (tmp_path / "thin" / "model.py").read_text() == "mine"


def test_in_this_repository_its_mutations_go_to_the_tests() -> None:
    texts = new._here("thin")
    assert ROOT / "tests" / "methods" / "thin" / "mutations.py" in texts
    assert "from methods.thin import model" in texts[ROOT / "methods" / "thin" / "checks.py"]
    for path, text in texts.items():
        if path.suffix == ".py":
            compile(text, str(path), "exec")
