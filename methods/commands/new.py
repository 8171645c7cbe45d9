"""``new``: write the skeleton of a method: it passes ``check`` and runs as it stands.

In this repository it goes to ``methods/NAME`` and its mutations to ``tests/methods/NAME``. With
``--to DIR`` it becomes a package of its own in DIR, with a test and a ``pyproject.toml`` that
declares the entry point, so that ``pip install`` makes it a method here.
"""

import argparse
import re
import shlex
import sys
from pathlib import Path

import methods

from .. import registry
from ..errors import InputError

HELP = "write the skeleton of a method"
SKELETON = Path(__file__).with_name("skeleton")
MODULES = ("__init__.py", "spec.py", "model.py", "checks.py", "bench.py", "README.md")


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the method's name and where it goes."""
    parser.add_argument("name", metavar="NAME", help="lower case, with underscores")
    parser.add_argument("--to", metavar="DIR", type=Path, help="a package of its own in DIR")


def main(args: argparse.Namespace) -> int:
    """Write the files; refuses a name that is taken and writes over nothing."""
    name: str = args.name
    if not re.fullmatch(r"[a-z][a-z0-9_]{0,63}", name):
        raise InputError(f"a method's name is lower case with underscores, not {name[:80]!r}")
    if name in registry.slugs():
        raise InputError(f"there is a method {name!r} already")
    texts = _as_package(args.to, name) if args.to else _in_repository(name)
    taken = [path for path in texts if path.exists()]
    if taken:
        raise InputError(f"{taken[0]} exists already; nothing was written")
    for path, text in texts.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        sys.stdout.write(f"{path}\n")
    # Absolute: pip takes a bare name for a package of its index.
    first = f"pip install {shlex.quote(str(args.to.resolve()))} && " if args.to else ""
    sys.stdout.write(f"next: {first}python -m methods check {name}\n")
    return 0


def _in_repository(name: str) -> dict[Path, str]:
    ours = Path(methods.__file__).parent
    tests = ours.parent / "tests" / "methods" / name
    texts = {ours / name / module: _text(module, name, f"methods.{name}") for module in MODULES}
    mutations = _text("mutations.py", name, f"methods.{name}")
    return {**texts, tests / "__init__.py": "", tests / "mutations.py": mutations}


def _as_package(folder: Path, name: str) -> dict[Path, str]:
    texts = {folder / name / module: _text(module, name, name) for module in MODULES}
    texts[folder / "tests" / f"test_{name}.py"] = _text("test.py", name, name)
    return {**texts, folder / "pyproject.toml": _text("pyproject.toml", name, name)}


def _text(module: str, name: str, package: str) -> str:
    """A file of the skeleton with its names filled in."""
    text = (SKELETON / f"{module}.txt").read_text(encoding="utf-8")
    title = name.replace("_", " ").capitalize()
    return text.replace("PACKAGE", package).replace("TITLE", title).replace("NAME", name)
