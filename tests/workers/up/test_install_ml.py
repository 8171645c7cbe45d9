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
sleep 60 &
echo $! > {pid}.part
mv {pid}.part {pid}
wait
"""


@pytest.mark.parametrize("stopped", ["killed", "by the supervisor"])
def test_the_compiler_ends_with_the_installer(tmp_path: Path, stopped: str) -> None:
    driver, pid = tmp_path / "c++", tmp_path / "pid"
    driver.write_text(DRIVER.format(pid=pid))
    driver.chmod(0o755)
    build = (
        "import runpy, pathlib, pwd, types; "
        f"pwd.getpwuid = lambda _: types.SimpleNamespace(pw_dir={str(tmp_path)!r}); "
        "runpy.run_module('methods.sparse_attention.build_kernel', run_name='__main__')"
    )
    code = (
        "import sys; from workers.up import install_ml; "
        "install_ml.install = lambda: 0; "
        f"install_ml.KERNEL = [sys.executable, '-c', {build!r}]; "
        "install_ml.main()"
    )
    installer = subprocess.Popen(
        [sys.executable, "-c", code],
        cwd=ROOT,
        env={**os.environ, "CXX": str(driver), "ASSAY_DATA": str(tmp_path)},
        process_group=0,
    )
    wait_for(pid.exists, 60, "the compiler")
    compiler = Path("/proc") / pid.read_text().strip()
    assert "sleep" in (compiler / "cmdline").read_text()

    if stopped == "killed":
        installer.kill()
        installer.wait()
        kernels = tmp_path / ".cache" / "assay" / "kernels"
        wait_for(lambda: [path.name for path in kernels.iterdir()] == ["lock"], 5, "a clean folder")
    else:  # TERM to a child, then KILL to what is left of its group
        installer.terminate()
        installer.wait()
        os.killpg(installer.pid, signal.SIGKILL)
    wait_for(lambda: not compiler.exists(), 5, "the end of the compiler")
