"""The installer of what methods need: nothing that it starts outlives it."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.processes import wait_for
from workers.up import install_ml

ROOT = Path(install_ml.__file__).parents[2]
# A driver that starts the compiler proper and waits for it, as `c++` does with `cc1plus`.
DRIVER = """#!/bin/sh
sleep 3600 &
echo $! > {pid}.part
mv {pid}.part {pid}
wait
"""


# What importing PyTorch may do: run code that swallows what is raised in it.
SWALLOWING = """import os, pathlib, signal, time
pathlib.Path("{pid}").write_text(str(os.getpid()))
try:
    os.kill(os.getppid(), signal.SIGKILL)
    time.sleep(3600)
except BaseException:
    time.sleep(3600)
"""


def installer(folder: Path, **environment: str) -> subprocess.Popen[bytes]:
    """The installer in a group of its own; it installs nothing, and builds a kernel in `folder`."""
    build = (
        "import runpy, pathlib, pwd, types; "
        f"pwd.getpwuid = lambda _: types.SimpleNamespace(pw_dir={str(folder)!r}); "
        "runpy.run_module('methods.sparse_attention.build_kernel', run_name='__main__')"
    )
    code = (
        "import sys; from workers.up import install_ml; "
        "install_ml.install = lambda: 0; "
        f"install_ml.KERNEL = [sys.executable, '-c', {build!r}]; "
        "install_ml.main()"
    )
    return subprocess.Popen(
        [sys.executable, "-c", code],
        cwd=ROOT,
        env={**os.environ, "ASSAY_DATA": str(folder), **environment},
        process_group=0,
    )


@pytest.mark.parametrize("stopped", ["killed", "by the supervisor"])
def test_the_compiler_ends_with_the_installer(tmp_path: Path, stopped: str) -> None:
    driver, pid = tmp_path / "c++", tmp_path / "pid"
    driver.write_text(DRIVER.format(pid=pid))
    driver.chmod(0o755)
    process = installer(tmp_path, CXX=str(driver))
    wait_for(pid.exists, "the compiler")
    compiler = Path("/proc") / pid.read_text().strip()
    # A moment before it is still a fork of the driver.
    wait_for(lambda: "sleep" in (compiler / "cmdline").read_text(), "the compiler proper")

    if stopped == "killed":
        process.kill()
        process.wait()
    else:  # TERM to a child, then KILL to what is left of its group
        process.terminate()
        process.wait()
        os.killpg(process.pid, signal.SIGKILL)
    wait_for(lambda: not compiler.exists(), "the end of the compiler")


def test_the_build_ends_with_the_installer_while_pytorch_is_imported(tmp_path: Path) -> None:
    pid, torch = tmp_path / "pid", tmp_path / "torch"
    torch.mkdir()
    (torch / "__init__.py").write_text(SWALLOWING.format(pid=pid))
    process = installer(tmp_path, PYTHONPATH=str(tmp_path))
    wait_for(pid.exists, "the import")
    process.wait()
    build = Path("/proc") / pid.read_text()
    wait_for(lambda: not build.exists(), "the end of the build")
