"""In CI nothing is skipped in silence; elsewhere a skip says what would mend it."""

import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from django.conf import settings

import manage
from tests import conftest, forking, machine

pytest_plugins = ["pytester"]

SUITE = """
import pytest

def test_runs(): pass
def test_skips(): pytest.skip("no such server here")
@pytest.mark.gpu
def test_needs_a_gpu(): pytest.skip("no GPU")
@pytest.mark.xfail(reason="known")
def test_known(): assert False
"""


MODULE = "import pytest\npytest.importorskip('no_such_module')\n"
RULES = ("pytest_runtest_makereport", "pytest_make_collect_report")


def outcome(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, ci: str) -> str:
    """The output of pytest with the rules of tests/conftest.py and nothing else of it."""
    monkeypatch.setenv("CI", ci)
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    pytester.makeini("[pytest]\nmarkers = gpu: needs one\n")
    pytester.makepyfile(test_it=SUITE, test_module=MODULE)
    rules = SimpleNamespace(**{name: getattr(conftest, name) for name in RULES})
    options = ("-ra", "--continue-on-collection-errors", "-p", "no:cacheprovider")
    return str(pytester.runpytest_inprocess(*options, plugins=[rules]).stdout)


def test_a_skip_fails_in_ci_unless_it_wants_a_gpu_and_so_does_a_module_s(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    output = outcome(pytester, monkeypatch, "true")
    assert "1 failed, 1 passed, 1 skipped, 1 xfailed, 1 error in" in output
    assert "so this skip is a failure: Skipped: no such server here" in output


def test_a_skip_is_a_skip_elsewhere(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "1 passed, 3 skipped, 1 xfailed in" in outcome(pytester, monkeypatch, "")


GROUPED = """
import os
import sys
import pytest

@pytest.mark.xdist_group("together")
@pytest.mark.parametrize("number", range(4))
def test_one_process(number):
    assert "turtledemo" in sys.modules
    print("process", os.getpid())
"""


def test_a_group_stays_in_one_process_which_is_a_fork_of_what_has_loaded_libraries(
    tmp_path: Path,
) -> None:
    """Silently it did not under pytest 9.2: every process then started a rig of its own."""
    (tmp_path / "test_it.py").write_text(GROUPED)
    options = ["-p", "xdist", "--dist", "loadgroup", "-rP", "-p", "no:cacheprovider"]
    plain = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    with forking.python(["turtledemo"]) as python:
        done = subprocess.run(
            [sys.executable, "-m", "pytest", *options, "--tx", f"2*popen//python={python}"],
            cwd=tmp_path,
            env={**plain, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},  # each costs a second in each
            capture_output=True,
            text=True,
        )
    assert "4 passed" in done.stdout
    lines = {line for line in done.stdout.splitlines() if line.startswith("process ")}
    assert len(lines) == 1


def test_what_waits_begins_first(request: pytest.FixtureRequest) -> None:
    """Whatever other plugins put in another order."""
    turns = [conftest.turn(item) for item in request.session.items]
    assert turns == sorted(turns)


@pytest.mark.parametrize("need", machine.NEEDS, ids=lambda need: need.program)
def test_what_is_missing_is_named_with_the_line_that_brings_it(need: machine.Need) -> None:
    assert need.why_not == f"needs {need.program}: sudo apt-get install {need.package}"
    absent = machine.Need("no-such-program", need.package, ("no/such/*/place",))
    assert absent.find() is None


def test_the_settings_are_of_this_process_and_of_no_developer() -> None:
    assert Path(os.environ["ASSAY_DATA"]).name.startswith("assay-test-")
    assert Path(os.environ["ASSAY_DATA"]) == settings.DATA_DIR


@pytest.mark.parametrize(
    "need", [need for need in machine.NEEDS if need.wheel], ids=lambda need: need.program
)
def test_a_server_comes_from_a_wheel_where_the_machine_has_none(
    need: machine.Need, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    nowhere = machine.Need(need.program, need.package, wheel=need.wheel)
    assert nowhere.find(wheels=False) is None
    found = nowhere.find()
    assert found
    assert subprocess.run([found, "--version"], capture_output=True).returncode == 0


@pytest.mark.parametrize(
    ("arguments", "torch"),
    [
        ([], True),
        (["--fast"], False),
        (["-k", "identifiers"], True),
        (["tests/papers/test_identifiers.py"], False),
        (["tests/papers/test_identifiers.py::test_it", "-x"], False),
        (["tests/ui/test_markup.py", "tests/methods/kit"], True),
        (["tests/methods/kit/test_kit.py"], True),
        (["tests/catalog"], True),
        (["tests/nothing.py"], True),
    ],
)
def test_torch_is_installed_for_tests_that_may_load_it(arguments: list[str], torch: bool) -> None:
    assert ("torch" in manage.groups("test", arguments)) == torch


@pytest.mark.parametrize(
    ("arguments", "asked"),
    [
        (["tests/papers/test_identifiers.py"], False),
        (["--fast"], False),
        (["--install", "tests/papers/test_identifiers.py"], True),
        (["-k", "no_such_test"], True),
    ],
)
def test_only_the_whole_suite_installs_packages_of_the_system(
    tmp_path: Path, arguments: list[str], asked: bool
) -> None:
    """On a machine without those programs, and with an apt-get that only writes down the call.

    Which programs are installed is decided before a test is collected: no file of a folder is read.
    """
    programs = tmp_path / "bin"
    programs.mkdir()
    apt = programs / "apt-get"
    apt.write_text(f"#!/bin/sh\necho asked >> {tmp_path / 'asked'}\nexit 1\n")
    apt.chmod(0o755)
    done = subprocess.run(
        forking.manage("test", "-n", "0", "--collect-only", "--ignore-glob=*/tests/*", *arguments),
        cwd=machine.__file__.rpartition("/tests/")[0],
        env={**os.environ, "PATH": str(programs), "CI": ""},
        capture_output=True,
        text=True,
    )
    assert (tmp_path / "asked").exists() == (asked and os.geteuid() == 0), done.stdout + done.stderr
