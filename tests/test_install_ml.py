"""The background installation of what methods need, and the file that tells how far it is."""

import fcntl
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.processes import ROOT, processes_of, wait_for
from webapp.runs.web.views import installation
from workers.up.install_ml import write


def install(data: Path, code: str, **environment: str) -> tuple[int, dict[str, object]]:
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=ROOT,
        env={**os.environ, "ASSAY_DATA": str(data), **environment},
        capture_output=True,
        text=True,
    )
    return done.returncode, json.loads((data / "ml-install.json").read_text())


def test_what_is_there_is_not_installed_again(tmp_path: Path) -> None:
    code = "from workers.up.install_ml import install; raise SystemExit(install())"
    venv = tmp_path / "venv"
    assert install(tmp_path, code, ASSAY_VENV=str(venv), ASSAY_ENCODER="off") == (
        0,
        {"state": "installed"},
    )
    assert not venv.exists()


def test_a_failure_is_told_in_words(tmp_path: Path) -> None:
    # An interpreter that sees no packages, and a uv that finds none.
    code = "import bootstrap, sys; from workers.up.install_ml import main; bootstrap._pip = list\n"
    code += "sys.path = [folder for folder in sys.path if '-packages' not in folder]\n"
    code += "raise SystemExit(main())"
    place = {"ASSAY_VENV": str(tmp_path / "venv"), "UV_CACHE_DIR": str(tmp_path / "cache")}
    programs = str(Path(sys.executable).parent)
    status, told = install(tmp_path, code, **place, PATH=programs, UV_OFFLINE="1")
    assert status == 1
    assert told["state"] == "failed"
    assert "Is this machine online?" in str(told["reason"])


def test_an_environment_that_cannot_be_made_is_told_in_words(tmp_path: Path) -> None:
    code = "import sys; from workers.up.install_ml import install\n"
    code += "sys.path = [folder for folder in sys.path if '-packages' not in folder]\n"
    code += "raise SystemExit(install())"
    (tmp_path / "file").touch()
    status, told = install(tmp_path, code, ASSAY_VENV=str(tmp_path / "file" / "venv"))
    assert status == 1
    assert told["state"] == "failed"
    assert "Not a directory" in str(told["reason"])


def test_it_says_that_it_waits_for_another_installation(tmp_path: Path) -> None:
    """Of another folder of data, into the same environment."""
    (venv := tmp_path / "venv").mkdir()
    code = "import sys; from workers.up.install_ml import install\n"
    code += "sys.path = [folder for folder in sys.path if '-packages' not in folder]\n"
    code += "install()"
    environment = {**os.environ, "ASSAY_DATA": str(tmp_path), "ASSAY_VENV": str(venv)}
    progress = tmp_path / "ml-install.json"
    other = os.open(venv, os.O_RDONLY)
    fcntl.flock(other, fcntl.LOCK_EX)
    with subprocess.Popen([sys.executable, "-c", code], cwd=ROOT, env=environment) as installer:
        try:
            wait_for(progress.exists, "its progress")
            written = json.loads(progress.read_text())
        finally:
            installer.kill()
            os.close(other)
    assert written["state"] == "installing"
    assert "Another process is filling" in written["step"]


def test_what_it_builds_does_not_outlive_it(tmp_path: Path) -> None:
    code = "from workers.up import install_ml; import sys\n"
    code += "install_ml.KERNEL = [sys.executable, '-c', 'import time; time.sleep(3600)']\n"
    code += "install_ml.main()"
    environment = {**os.environ, "ASSAY_DATA": str(tmp_path), "ASSAY_VENV": sys.prefix}
    with subprocess.Popen([sys.executable, "-c", code], cwd=ROOT, env=environment) as installer:
        wait_for(lambda: len(processes_of(tmp_path)) == 2, "what it builds")
        installer.kill()
    wait_for(lambda: not processes_of(tmp_path), "the end of both")


def test_the_file_is_replaced_whole(tmp_path: Path) -> None:
    path = tmp_path / "ml-install.json"
    write(path, "installing", done=1, total=2)
    write(path, "installed")
    assert json.loads(path.read_text()) == {"state": "installed"}
    assert [file.name for file in tmp_path.iterdir()] == ["ml-install.json"]


def test_a_failed_build_prints_its_reason_and_the_next_one_runs(tmp_path: Path) -> None:
    code = "from workers.up import install_ml; import sys\n"
    code += "install_ml.install = lambda: 0\n"
    code += "install_ml.KERNEL = [sys.executable, '-c', 'raise SystemExit(\"no compiler\")']\n"
    code += "install_ml.COMPILE = [sys.executable, '-c', 'import no_such_module']\n"
    code += "raise SystemExit(install_ml.main())"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "Building a kernel failed (exit status 1):\nno compiler" in done.stdout
    assert "Compiling the methods failed (exit status 1):" in done.stdout
    assert "No module named 'no_such_module'" in done.stdout


def test_a_killed_installation_is_shown_as_interrupted(tmp_path: Path, settings: Any) -> None:
    settings.DATA_DIR = tmp_path
    code = "from workers.up import install_ml; import time\n"
    code += "install_ml.is_done = lambda: False\n"
    code += "install_ml.bootstrap.provide = lambda _, report: (report('torch'), time.sleep(3600))\n"
    code += "install_ml.install()"
    environment = {**os.environ, "ASSAY_DATA": str(tmp_path)}
    with subprocess.Popen([sys.executable, "-c", code], cwd=ROOT, env=environment) as installer:
        try:
            wait_for((tmp_path / "ml-install.json").exists, "its progress")
            progress = installation()
            assert progress
            assert (progress["state"], progress["step"]) == ("installing", "torch")
        finally:
            installer.kill()
    progress = installation()
    assert progress
    assert progress["state"] == "failed"
    assert progress["reason"] == "The installation was interrupted."
