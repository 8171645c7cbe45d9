"""Installed packages of methods that do what none should: ours are listed, and each is named."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.processes import ROOT

SPEC = "from methods.spec import Method\n"
PACKAGES = {
    "raises": "raise RuntimeError('no')",
    "exits": "import sys; sys.exit(3)",
    "interrupts": "raise KeyboardInterrupt",
    "recurses": "def again(): return again()\nagain()",
    "hangs": "import time; time.sleep(3600)",
    "spins": "while True: pass",
    "unwritten": "METHOD = (",
    "empty": "",
    "a_dict": "METHOD = {'slug': 'a_dict'}",
    "a_class": "class METHOD: slug, title, description, benchmarks = 'a_class', 1, None, ()",
    "renamed": SPEC + "METHOD = Method(slug='seps', title='', description='')",
    "nameless": SPEC + "METHOD = Method(slug='../x', title='', description='')",
    "loses_torch": "import no_such_module_anywhere",
}
GOOD = SPEC + (
    "print('a banner', flush=True)\n"
    "METHOD = Method(slug='talks', title='Talks', description='Prints as it is imported.')"
)
# Those that never end are waited for briefly, the others for as long as a busy machine needs.
LIST = """
from methods import registry
problem = registry._problem
def patient(slug, package):
    registry.LOAD_SECONDS = 1.0 if slug in {"hangs", "spins"} else 600.0
    return problem(slug, package)
registry._problem = patient
print(*registry.slugs())
"""


def install(folder: Path, name: str, spec: str) -> None:
    """Lay a distribution with one method where Python looks for packages."""
    package, about = folder / f"of_{name}", folder / f"of_{name}-1.dist-info"
    package.mkdir()
    about.mkdir()
    (package / "__init__.py").write_text("")
    (package / "spec.py").write_text(spec)
    (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: of_{name}\nVersion: 1\n")
    (about / "entry_points.txt").write_text(f"[assay.methods]\n{name} = of_{name}\n")


def python(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *words],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(folder)},
        capture_output=True,
        text=True,
    )


def test_a_package_that_is_of_no_use_is_left_out_and_named(tmp_path: Path) -> None:
    for name, spec in {**PACKAGES, "talks": GOOD}.items():
        install(tmp_path, name, spec)
    (tmp_path / "of_raises-1.dist-info" / "entry_points.txt").write_text(
        "[assay.methods]\nraises = of_raises\nnowhere = no.such.package\n"
    )
    done = python(tmp_path, "-c", LIST)
    assert done.returncode == 0, done.stderr
    slugs = done.stdout.split()
    assert {"seps", "sparse_attention", "talks"} <= set(slugs)
    assert not set(slugs) & (PACKAGES.keys() | {"nowhere"})
    for name in (*PACKAGES, "nowhere"):
        assert f"The method '{name}' of the installed package" in done.stderr, name
    assert "a banner" in done.stderr


def test_what_a_package_prints_is_no_part_of_an_answer(tmp_path: Path) -> None:
    install(tmp_path, "talks", GOOD)
    done = python(tmp_path, "-m", "methods", "describe", "talks")
    assert done.returncode == 0, done.stderr
    assert "Prints as it is imported." in done.stdout
    assert "a banner" not in done.stdout
