"""``new``: write the skeleton of a method: it passes ``check`` and runs as it stands.

In a checkout of Assay it goes to ``methods/NAME`` and its mutations to ``tests/methods/NAME``. With
``--to DIR`` it becomes a package of its own in DIR, with a test and a ``pyproject.toml`` that
declares the entry point, so that ``pip install`` makes it a method here.
"""

import argparse
import re
import shlex
import sys
from pathlib import Path

from .. import registry
from ..errors import InputError

HELP = "write the skeleton of a method"
SKELETON = Path(__file__).with_name("skeleton")
# What the skeleton imports its interface from.
IN_CHECKOUT, INSTALLED = "..", "assay_methods."
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
    texts = _as_package(args.to, name) if args.to else _in_checkout(name)
    taken = [path for path in texts if path.exists()]
    if taken:
        raise InputError(f"{taken[0]} exists already; nothing was written")
    for path, text in texts.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        sys.stdout.write(f"{path}\n")
    # Absolute: pip takes a bare name for a package of its index.
    first = f"pip install {shlex.quote(str(args.to.resolve()))} && " if args.to else ""
    sys.stdout.write(f"next: {first}python -m {registry.PACKAGE} check {name}\n")
    return 0


def _in_checkout(name: str) -> dict[Path, str]:
    ours = Path(__file__).parents[1]
    tests = ours.parent / "tests" / "methods"
    if not tests.is_dir():
        raise InputError("this is no checkout of Assay: say with --to DIR where the package goes")
    texts = {ours / name / module: _text(module, name, IN_CHECKOUT) for module in MODULES}
    mutations = _text("mutations.py", name, IN_CHECKOUT)
    return {**texts, tests / name / "__init__.py": "", tests / name / "mutations.py": mutations}


def _as_package(folder: Path, name: str) -> dict[Path, str]:
    texts = {folder / name / module: _text(module, name, INSTALLED) for module in MODULES}
    texts[folder / "tests" / f"test_{name}.py"] = _text("test.py", name, INSTALLED)
    return {**texts, folder / "pyproject.toml": _text("pyproject.toml", name, INSTALLED)}


def _text(module: str, name: str, interface: str) -> str:
    """A file of the skeleton with its names filled in; it imports from `interface`."""
    text = (SKELETON / f"{module}.txt").read_text(encoding="utf-8")
    title = name.replace("_", " ").capitalize()
    command = "python -m methods" if interface == IN_CHECKOUT else "assay-methods"
    words = {"ASSAY.": interface, "COMMAND": command, "TITLE": title, "NAME": name}
    for word, filled in words.items():
        text = text.replace(word, filled)
    return text
